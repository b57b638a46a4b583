import { Link } from '@tanstack/react-router';
import { Page } from '../ui/Page';
import { Empty } from '../ui/States';
import { Ship } from '../ui/icons';

export function NotFoundPage() {
  return (
    <Page title="There is no page here" documentTitle="Not found">
      <div className="panel">
        <Empty
          title="This address leads nowhere"
          icon={<Ship />}
          action={<Link to="/">Go to the home page</Link>}
        >
          It may be mistyped, or what it showed is gone.
        </Empty>
      </div>
    </Page>
  );
}
