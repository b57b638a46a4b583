import { Keys } from '../../components/admin/Keys';
import { Page } from '../../ui/Page';

export function KeysPage() {
  return (
    <Page title="Your API keys" documentTitle="API keys" subtitle="Keys act as you in this account.">
      <Keys title="Keys" />
    </Page>
  );
}
