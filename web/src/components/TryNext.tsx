import { useQuery } from '@tanstack/react-query';
import { repositoriesQuery } from '../api/queries';
import type { Repository } from '../api/types';
import { CopyText } from '../ui/CopyText';
import styles from './TryNext.module.css';

/** What a newcomer does first: clone, change a line, push, watch. Nothing is drawn when there is nothing to clone. */
export function TryNext() {
  const { data: repositories } = useQuery(repositoriesQuery);
  const repository = repositories && pick(repositories);
  if (!repository) return null;
  const folder = repository.name.split('/').at(-1) ?? repository.name;
  return (
    <section className="panel" aria-labelledby="try-next">
      <header>
        <h2 id="try-next">Try it: from a commit to a running version</h2>
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
          <CopyText prompt what="command" text={`cd ${folder} && git commit -am "try it" && git push`} />
          <p className="muted">
            The README of <code>{repository.name}</code> says which line is a good one.
          </p>
        </li>
        <li>
          <h3>Watch</h3>
          <p className="muted">
            A build starts by itself and its log is live here. When it is done, the new version is committed
            to the deployment repository and the application goes from out of sync to healthy.
          </p>
        </li>
      </ol>
    </section>
  );
}

/** The demo's program if it is there, otherwise whichever comes first. */
function pick(repositories: Repository[]): Repository | undefined {
  return repositories.find((repository) => /(^|\/)demo-app$/.test(repository.name)) ?? repositories[0];
}
