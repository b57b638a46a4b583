import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { repositoriesQuery } from '../api/queries';
import type { Repository } from '../api/types';
import { CommitLine } from '../components/CommitLine';
import { NewRepositoryDialog } from '../components/NewRepositoryDialog';
import { DataTable } from '../ui/DataTable';
import { CopyText } from '../ui/CopyText';
import { Branch, Plus } from '../ui/icons';
import { Page } from '../ui/Page';
import { Empty, QueryView } from '../ui/States';
import { Ago } from '../ui/Time';

export function RepositoriesPage() {
  const repositories = useQuery(repositoriesQuery);
  const [making, dialog] = useDisclosure();
  return (
    <Page
      title="Repositories"
      documentTitle="Repositories"
      subtitle="On the built-in Git host. Clone and push with any user name and an API key as the password. Every member can read; gitRepository access rules decide who can push."
      actions={
        <Button leftSection={<Plus />} onClick={dialog.open}>
          New repository
        </Button>
      }
    >
      <div className="panel">
        <QueryView
          query={repositories}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No repositories yet" icon={<Branch />}>
                Create one here, then push to it; the list shows its clone URL.
              </Empty>
            )
          }
        >
          {(all) => <RepositoryTable repositories={all} />}
        </QueryView>
      </div>
      {making && <NewRepositoryDialog onClose={dialog.close} />}
    </Page>
  );
}

function RepositoryTable({ repositories }: { repositories: Repository[] }) {
  return (
    <DataTable label="Repositories" heads={['Repository', 'Clone', 'Branch', 'Latest commit', 'Pushed']}>
      {repositories.map((repository) => (
        <tr key={repository.id}>
          <td className="nowrap">{repository.name}</td>
          <td>
            <CopyText text={repository.cloneUrl} what="clone URL" />
          </td>
          <td className="nowrap">{repository.defaultBranch}</td>
          <td style={{ maxWidth: 320 }}>
            {repository.head ? (
              <CommitLine
                sha={repository.head.sha}
                message={repository.head.message}
                author={repository.head.author}
              />
            ) : (
              <span className="muted">no commits yet</span>
            )}
          </td>
          <td>
            <Ago at={repository.head?.pushedAt} />
          </td>
        </tr>
      ))}
    </DataTable>
  );
}
