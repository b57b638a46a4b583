import { useQuery } from '@tanstack/react-query';
import type { ApplicationRef } from '../../api/appProxy';
import { eventsQuery } from '../../api/queries';
import type { ObjectEvent, ResourceRef } from '../../api/types';
import { QueryView } from '../../ui/States';
import { Status } from '../../ui/Status';
import { Ago } from '../../ui/Time';

/** What Kubernetes and the engines noted about one object, newest first. */
export function ResourceEvents({ reference, of }: { reference: ApplicationRef; of: ResourceRef }) {
  const noted = useQuery(eventsQuery(reference, of));
  return (
    <section aria-label="Events" className="stack">
      <h3>Events</h3>
      <QueryView
        query={noted}
        rows={2}
        empty={({ events }) =>
          events.length === 0 && <p className="muted">None. Kubernetes forgets events after an hour.</p>
        }
      >
        {({ events }) => (
          <ul className="stack" style={{ listStyle: 'none', margin: 0, padding: 0 }}>
            {events.map((event, index) => (
              // Neither reason nor time is one's own.
              <Noted key={index} event={event} />
            ))}
          </ul>
        )}
      </QueryView>
    </section>
  );
}

function Noted({ event }: { event: ObjectEvent }) {
  return (
    <li>
      <span className="row">
        <Status plain tone={event.type === 'Warning' ? 'warn' : 'off'}>
          {event.reason || event.type}
        </Status>
        {event.count > 1 && <span className="muted">{event.count} times</span>}
        <span style={{ marginLeft: 'auto' }}>
          <Ago at={event.lastSeen} />
        </span>
      </span>
      <p style={{ margin: 0, overflowWrap: 'anywhere' }}>{event.message}</p>
    </li>
  );
}
