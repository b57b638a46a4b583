import { useQuery } from '@tanstack/react-query';
import { applicationsQuery } from '../api/queries';
import { ApplicationTable } from '../components/ApplicationTable';
import { Layers } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';

export function ApplicationsPage() {
  const applications = useQuery(applicationsQuery);
  return (
    <Page
      title="Applications"
      documentTitle="Applications"
      subtitle="What Git says should run, and what does run."
    >
      <div className="panel">
        <QueryView
          query={applications}
          rows={6}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No application yet" icon={<Layers />}>
                Commit an Argo <code>Application</code> to a repository that a runtime watches, or apply one
                with <code>kubectl</code>.
              </Empty>
            )
          }
        >
          {(all) => <ApplicationTable applications={all} />}
        </QueryView>
      </div>
    </Page>
  );
}
