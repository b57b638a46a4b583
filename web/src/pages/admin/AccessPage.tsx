import { Button } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { createRule, deleteRule, replaceRule } from '../../api/adminMutations';
import { ruleKindsQuery, rulesQuery, type Question } from '../../api/adminQueries';
import type { Rule } from '../../api/types';
import { Explain } from '../../components/admin/Explain';
import { RuleDialog } from '../../components/admin/RuleDialog';
import { conditionText, whoText } from '../../components/admin/rules';
import { useChange } from '../../hooks/useChange';
import { DataTable, RowAction, RowActions } from '../../ui/DataTable';
import { Confirm } from '../../ui/Confirm';
import { Plus, Shield } from '../../ui/icons';
import { Page } from '../../ui/Page';
import { Empty, QueryView } from '../../ui/States';

const route = getRouteApi('/signed-in/admin/access');

/** Which teams may do what to which entities, and why somebody may or may not. */
export function AccessPage() {
  const rules = useQuery(rulesQuery);
  const kinds = useQuery(ruleKindsQuery);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const [making, setMaking] = useState(false);
  const [changing, setChanging] = useState<Rule>();
  const [deleting, setDeleting] = useState<Rule>();
  const change = useChange(['rules']);
  const ask = ({ user, action, entity }: Question) =>
    void navigate({ search: { action, entity, ...(user ? { user } : {}) } });
  return (
    <Page
      title="Access rules"
      documentTitle="Access rules"
      subtitle="What teams may do. Administrators may do everything, regardless of rules."
      actions={
        <Button leftSection={<Plus />} onClick={() => setMaking(true)} disabled={!kinds.data}>
          New rule
        </Button>
      }
    >
      <QueryView query={kinds} rows={2}>
        {(all) => <Explain key={JSON.stringify(search)} kinds={all} question={search} onAsk={ask} />}
      </QueryView>
      <section className="panel" aria-labelledby="rules">
        <header>
          <h2 id="rules">Rules</h2>
        </header>
        <QueryView
          query={rules}
          empty={(all) =>
            all.length === 0 && (
              <Empty title="No rules" icon={<Shield />}>
                Pipelines are closed to users until a rule opens them, and so is pushing to repositories; what
                GitOps deploys is open until a rule restricts it.
              </Empty>
            )
          }
        >
          {(all) => <RuleTable rules={all} onChange={setChanging} onDelete={setDeleting} />}
        </QueryView>
      </section>
      {making && kinds.data && (
        <RuleDialog
          kinds={kinds.data}
          onClose={() => setMaking(false)}
          save={(spec) => change(createRule(spec))}
        />
      )}
      {changing && kinds.data && (
        <RuleDialog
          kinds={kinds.data}
          rule={changing}
          onClose={() => setChanging(undefined)}
          save={(spec) => change(replaceRule(changing.id, spec))}
        />
      )}
      <Confirm
        opened={Boolean(deleting)}
        onClose={() => setDeleting(undefined)}
        title="Delete this rule?"
        verb="Delete"
        danger
        action={() => change(deleteRule(deleting?.id ?? ''))}
      >
        {deleting && (
          <>
            <strong>{whoText(deleting)}</strong> may no longer {(deleting.actions ?? []).join(', ')}{' '}
            {deleting.entityType} {conditionText(deleting)}, unless another rule says so.
          </>
        )}
      </Confirm>
    </Page>
  );
}

interface RuleTableProps {
  rules: Rule[];
  onChange: (rule: Rule) => void;
  onDelete: (rule: Rule) => void;
}

function RuleTable({ rules, onChange, onDelete }: RuleTableProps) {
  return (
    <DataTable labelledBy="rules" heads={['Teams', 'May', 'About', 'Which', 'Actions']}>
      {rules.map((rule) => {
        const words = `${whoText(rule)}: ${(rule.actions ?? []).join(', ')} ${rule.entityType}`;
        return (
          <tr key={rule.id}>
            <td>{whoText(rule)}</td>
            <td>{(rule.actions ?? []).join(', ')}</td>
            <td className="nowrap">{rule.entityType}</td>
            <td style={{ minWidth: 200 }}>
              {conditionText(rule)}
              {rule.note && <div className="muted">{rule.note}</div>}
            </td>
            <RowActions>
              <RowAction label={`Edit the rule ${words}`} onClick={() => onChange(rule)}>
                Edit
              </RowAction>
              <RowAction label={`Delete the rule ${words}`} onClick={() => onDelete(rule)}>
                Delete
              </RowAction>
            </RowActions>
          </tr>
        );
      })}
    </DataTable>
  );
}
