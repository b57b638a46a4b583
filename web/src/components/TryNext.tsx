import { CloseButton } from '@mantine/core';
import { useLocalStorage } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { repositoriesQuery } from '../api/queries';
import type { Repository } from '../api/types';
import { CopyText } from '../ui/CopyText';
import styles from './TryNext.module.css';

/** What a newcomer does first: clone, change a line, push, watch. Nothing is drawn when there is nothing to clone. */
export function TryNext() {
  const [dismissed, dismiss] = useLocalStorage({ key: 'slipway-try-dismissed', defaultValue: false });
  const { data: repositories } = useQuery(repositoriesQuery);
  const repository = repositories && pick(repositories);
  if (!repository || dismissed) return null;
  const folder = repository.name.split('/').at(-1) ?? repository.name;
  return (
    <section className="panel" aria-labelledby="try-next">
      <header>
        <h2 id="try-next">Try it: from a commit to a running version</h2>
        <CloseButton size="sm" aria-label="Dismiss" onClick={() => dismiss(true)} />
      </header>
      <ol className={styles.steps}>
        <li>
          <h3>Clone</h3>
          <CopyText prompt what="command" text={`git clone ${repository.cloneUrl}`} />
          <p className="muted">
            Git asks for a user name (any) and a password: the API key that <code>slipway up</code> printed.
          </p>
        </li>
        <li>
          <h3>Change a line and push</h3>
          <CopyText prompt what="command" text={`cd ${folder} && ${changeOf(repository)} && git push`} />
          <p className="muted">The command adds a line and commits it. Any other change will do, too.</p>
        </li>
        <li>
          <h3>Watch</h3>
          <p className="muted">
            A build starts automatically; follow its log on the Builds page. When it succeeds, the new version
            is committed to the deployment repository and the application is synced.
          </p>
        </li>
      </ol>
    </section>
  );
}

/** A command that always leaves something to push, however often it is run. */
function changeOf({ name }: Repository): string {
  if (!isDemo(name)) return 'git commit --allow-empty -m "try it"';
  return 'echo "<p>Hello at $(date)</p>" >> www/index.html && git commit -am "try it"';
}

const isDemo = (name: string) => /(^|\/)demo-app$/.test(name);

/** The demo's program if it is there, otherwise whichever comes first. */
function pick(repositories: Repository[]): Repository | undefined {
  return repositories.find((repository) => isDemo(repository.name)) ?? repositories[0];
}
