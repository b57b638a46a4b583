import { Link } from '@tanstack/react-router';
import { Page } from '../ui/Page';
import { Empty } from '../ui/States';
import { Ship } from '../ui/icons';

export function NotFoundPage() {
  return (
    <Page title="Page not found" documentTitle="Not found">
      <div className="panel">
        <Empty
          title="There is nothing at this address"
          icon={<Ship />}
          action={<Link to="/">Go to the home page</Link>}
        >
          Check the address; what it showed may have been deleted.
        </Empty>
      </div>
    </Page>
  );
}
