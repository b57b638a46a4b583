import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { applicationsQuery, buildsQuery } from '../api/queries';
import type { ApplicationList } from '../api/types';
import { ApplicationTable } from '../components/ApplicationTable';
import { spaced } from '../components/badges';
import { BuildTable } from '../components/BuildTable';
import { healthTone } from '../components/tones';
import { TryNext } from '../components/TryNext';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Status } from '../ui/Status';

const LATEST = 8;

/** The calm overview: what needs attention, what was built, what to try next. */
export function HomePage() {
  const applications = useQuery(applicationsQuery({ sort: 'problems' }, { limit: LATEST }));
  const builds = useQuery(buildsQuery({ limit: LATEST }));
  const newcomer = builds.data?.docs.length === 0;
  return (
    <Page title="Home" documentTitle="Home">
      {newcomer && <TryNext />}
      <section className="panel" aria-labelledby="home-applications">
        <header>
          <h2 id="home-applications">Applications</h2>
          <span className="row" style={{ flexWrap: 'wrap', gap: 12 }}>
            {applications.data && <Counts list={applications.data} />}
            <Link to="/applications">All applications</Link>
          </span>
        </header>
        <QueryView
          query={applications}
          empty={(list) =>
            list.total === 0 && (
              <Empty title="No applications yet">
                An application is an Argo CD <code>Application</code> in a cluster that a runtime watches.
              </Empty>
            )
          }
        >
          {(list) => <ApplicationTable applications={list.applications} />}
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
              <Empty title="No builds yet">Push a commit, or run a pipeline from the Pipelines page.</Empty>
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

/** How many there are by health; each leads to those. */
function Counts({ list }: { list: ApplicationList }) {
  return Object.entries(list.facets.health).map(([health, count]) => (
    <Link key={health} to="/applications" search={{ health }}>
      <Status plain tone={healthTone(health)}>
        {count.toLocaleString('en')} {spaced(health)}
      </Status>
    </Link>
  ));
}
