import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link } from '@tanstack/react-router';
import { applicationQuery, runtimesQuery } from '../api/queries';
import { RolloutPlayer } from '../components/rollout/RolloutPlayer';
import { offlineReason } from '../components/application/offline';
import { rolloutTone } from '../components/tones';
import { Layers } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Status } from '../ui/Status';

const route = getRouteApi('/signed-in/applications/$runtime/$namespace/$name/rollouts/$within/$rollout');

/** One Rollout by itself. */
export function RolloutPage() {
  const { within, rollout: name, ...reference } = route.useParams();
  const application = useQuery(applicationQuery(reference));
  const runtimes = useQuery(runtimesQuery);
  const runtime = runtimes.data?.find((each) => each.name === reference.runtime);
  const disabledReason = offlineReason(reference.runtime, runtimes.data, runtime);
  const rollout = application.data?.rollouts?.find((one) => one.namespace === within && one.name === name);
  return (
    <Page
      title={
        <span className="row" style={{ flexWrap: 'wrap' }}>
          {name}
          {rollout && <Status tone={rolloutTone(rollout.phase)}>{rollout.phase}</Status>}
        </span>
      }
      documentTitle={`${name} · Rollouts`}
      subtitle={
        <>
          {rollout?.strategy || 'Rollout'} in {within}, of application{' '}
          <Link to="/applications/$runtime/$namespace/$name" params={reference}>
            {reference.name}
          </Link>
        </>
      }
    >
      <QueryView
        query={application}
        rows={8}
        empty={() =>
          !rollout && (
            <Empty title="No such Rollout" icon={<Layers />}>
              The application has no Rollout {name} in {within}; it may be gone, or its runtime has not
              reported it yet.
            </Empty>
          )
        }
      >
        {() => rollout && <RolloutPlayer {...{ rollout, reference, disabledReason }} />}
      </QueryView>
    </Page>
  );
}
