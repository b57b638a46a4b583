import { Keys } from '../../components/admin/Keys';
import { Page } from '../../ui/Page';

export function KeysPage() {
  return (
    <Page
      title="Your API keys"
      documentTitle="API keys"
      subtitle="They speak for you, in the account that you are in now."
    >
      <Keys title="Keys" />
    </Page>
  );
}
