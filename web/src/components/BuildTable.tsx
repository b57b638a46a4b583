import { Link } from '@tanstack/react-router';
import type { Build } from '../api/types';
import { Branch } from '../ui/icons';
import { Ago, Elapsed } from '../ui/Time';
import { BuildStatus } from './badges';
import { CommitLine } from './CommitLine';
import { TableFrame } from '../ui/TableFrame';

interface BuildTableProps {
  builds: Build[];
  caption: string;
  /** Leaves out the pipeline where the page is about one. */
  withoutPipeline?: boolean;
}

export function BuildTable({ builds, caption, withoutPipeline }: BuildTableProps) {
  return (
    <TableFrame>
      <table className="data" aria-label={caption}>
        <thead>
          <tr>
            <th>Status</th>
            <th>Build</th>
            {!withoutPipeline && <th>Pipeline</th>}
            <th>Commit</th>
            <th>Branch</th>
            <th>Started</th>
            <th className="right">Took</th>
          </tr>
        </thead>
        <tbody>
          {builds.map((build) => (
            <tr key={build.id}>
              <td>
                <BuildStatus status={build.outcome ?? build.status} />
              </td>
              <td>
                <Link to="/builds/$id" params={{ id: build.id }} className="mono" title={build.id}>
                  {buildName(build)}
                </Link>
              </td>
              {!withoutPipeline && (
                <td>
                  <Link to="/pipelines/$name" params={{ name: build.pipelineName }}>
                    {build.pipelineName}
                  </Link>
                </td>
              )}
              <td style={{ maxWidth: 420 }}>
                <CommitLine sha={build.revision} message={build.commitMessage} author={build.committer} />
              </td>
              <td>
                {build.branchName ? (
                  <span className="row nowrap" style={{ gap: 4 }}>
                    <Branch /> {build.branchName}
                  </span>
                ) : (
                  <span className="muted">–</span>
                )}
              </td>
              <td>
                <Ago at={build.started ?? build.created} />
              </td>
              <td className="right">
                <Elapsed from={build.started} to={build.finished} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

/** `#17`, which the command line takes behind the pipeline's name; builds without a number have the end of their id. */
export function buildName(build: Pick<Build, 'id' | 'number'>): string {
  return build.number ? `#${build.number}` : shortId(build.id);
}

/** Ids are ordered by time, so the end is the part that differs. */
export function shortId(id: string): string {
  return id.slice(-8);
}
