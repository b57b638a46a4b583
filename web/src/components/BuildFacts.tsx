import type { Build } from '../api/types';
import { Branch } from '../ui/icons';
import { Properties, Property } from '../ui/Properties';
import { Ago, Elapsed } from '../ui/Time';
import { CommitLine } from './CommitLine';

/** Which commit, by whom, from where, on what, since when. */
export function BuildFacts({ build }: { build: Build }) {
  const annotations = Object.entries<unknown>(build.annotations ?? {});
  const repository = [build.repoOwner, build.repoName].filter(Boolean).join('/');
  return (
    <div className="panel">
      <div className="body" style={{ padding: '10px 14px' }}>
        <Properties inline>
          <Property name="Commit">
            <CommitLine sha={build.revision} message={build.commitMessage} author={build.committer} copy />
          </Property>
          {(repository || build.branchName) && (
            <Property name="Source">
              <span className="row" style={{ gap: 4 }}>
                {repository}
                {build.branchName && (
                  <>
                    <Branch /> {build.branchName}
                  </>
                )}
              </span>
            </Property>
          )}
          <Property name="Started by">{startedBy(build)}</Property>
          <Property name="Runs on">
            {build.runner ? (
              <>
                {build.runner} {build.executor && <span className="muted">({build.executor})</span>}
              </>
            ) : (
              <span className="muted">no runner yet</span>
            )}
          </Property>
          <Property name={build.started ? 'Started' : 'Created'}>
            <Ago at={build.started ?? build.created} />
          </Property>
          <Property name="Took">
            <Elapsed from={build.started} to={build.finished} />
          </Property>
          {build.images && build.images.length > 0 && (
            <Property name="Images">
              {build.images.map((image) => (
                <code key={`${image.name}:${image.tag}`} title={image.id} style={{ marginRight: 8 }}>
                  {image.name}:{image.tag}
                </code>
              ))}
            </Property>
          )}
          {annotations.length > 0 && (
            <Property name="Annotations">
              {annotations.map(([name, value]) => (
                <span key={name} style={{ marginRight: 10 }}>
                  <span className="muted">{name}</span> {String(value)}
                </span>
              ))}
            </Property>
          )}
        </Properties>
      </div>
    </div>
  );
}

function startedBy({ webhookTriggered, pipelineTriggerName: trigger }: Build): string {
  if (webhookTriggered) return trigger ? `a push (trigger ${trigger})` : 'a push';
  return trigger ? `hand, as trigger ${trigger}` : 'hand';
}
