import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { applicationsQuery, buildsQuery } from '../api/queries';
import { ApplicationTable } from '../components/ApplicationTable';
import { BuildTable } from '../components/BuildTable';
import { TryNext } from '../components/TryNext';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';

const LATEST = 8;

/** The calm overview: what runs, what was built, what to try next. */
export function HomePage() {
  const applications = useQuery(applicationsQuery);
  const builds = useQuery(buildsQuery({ limit: LATEST }));
  const newcomer = builds.data?.docs.length === 0;
  return (
    <Page title="Home" documentTitle="Home">
      {newcomer && <TryNext />}
      <section className="panel" aria-labelledby="home-applications">
        <header>
          <h2 id="home-applications">Applications</h2>
          <Link to="/applications">All applications</Link>
        </header>
        <QueryView
          query={applications}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No application yet">
                An application is an Argo <code>Application</code> in a cluster that a runtime watches.
              </Empty>
            )
          }
        >
          {(all) => <ApplicationTable applications={all.slice(0, LATEST)} compact />}
        </QueryView>
      </section>
      <section className="panel" aria-labelledby="home-builds">
        <header>
          <h2 id="home-builds">Latest builds</h2>
          <Link to="/builds">All builds</Link>
        </header>
        <QueryView
          query={builds}
          empty={(page) =>
            page.docs.length === 0 && (
              <Empty title="No build yet">Push a commit, or run a pipeline from the Pipelines page.</Empty>
            )
          }
        >
          {(page) => <BuildTable builds={page.docs} caption="Latest builds" />}
        </QueryView>
      </section>
      {!newcomer && <TryNext />}
    </Page>
  );
}
