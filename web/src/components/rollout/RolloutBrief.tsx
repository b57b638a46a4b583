import { Link } from '@tanstack/react-router';
import type { ApplicationRef } from '../../api/appProxy';
import type { Rollout } from '../../api/types';
import { Steps, Waiting } from './RolloutPlayer';

/** A Rollout beside the tree of its application, with the way to all of it. */
export function RolloutBrief({ rollout, reference }: { rollout: Rollout; reference: ApplicationRef }) {
  return (
    <>
      <Waiting rollout={rollout} />
      <Steps rollout={rollout} />
      <p>
        <Link
          to="/applications/$runtime/$namespace/$name/rollouts/$within/$rollout"
          params={{ ...reference, within: rollout.namespace, rollout: rollout.name }}
        >
          Follow and control the rollout
        </Link>
      </p>
    </>
  );
}
