import { Checkbox, NativeSelect, SegmentedControl, TextInput } from '@mantine/core';
import type { ManagedCluster } from '../../api/types';
import { OWN_CLUSTER, type Field, type Fields } from './draft';

// A line that one can read at a glance; wider fields say nothing more.
const NARROW = { maxWidth: 640 };

interface DraftFormProps {
  fields: Fields;
  clusters: ManagedCluster[];
  errors: Partial<Record<Field, string>>;
  onChange: (field: Field, value: string | boolean) => void;
}

/** The fields that nearly every Application has; everything else is written as YAML. */
export function DraftForm({ fields, clusters, errors, onChange }: DraftFormProps) {
  const text = (field: Field) => ({
    value: String(fields[field]),
    onChange: (event: { currentTarget: { value: string } }) => onChange(field, event.currentTarget.value),
    error: errors[field],
  });
  const tick = (field: Field) => ({
    checked: Boolean(fields[field]),
    onChange: (event: { currentTarget: { checked: boolean } }) =>
      onChange(field, event.currentTarget.checked),
  });
  const chart = fields.kind === 'chart';
  return (
    <>
      <section className="panel" aria-labelledby="what">
        <header>
          <h2 id="what">What</h2>
        </header>
        <div className="body stack" style={NARROW}>
          <TextInput label="Name" {...text('name')} />
          <TextInput label="Project" placeholder="default" {...text('project')} />
        </div>
      </section>
      <section className="panel" aria-labelledby="source">
        <header>
          <h2 id="source">Source</h2>
          <SegmentedControl
            size="xs"
            aria-label="Kind of source"
            value={fields.kind}
            onChange={(kind) => onChange('kind', kind)}
            data={[
              { value: 'folder', label: 'Folder in Git' },
              { value: 'chart', label: 'Helm chart' },
            ]}
          />
        </header>
        <div className="body stack" style={NARROW}>
          <TextInput
            label="Repository URL"
            placeholder={chart ? 'https://charts.example.com' : 'https://git.example.com/owner/name.git'}
            {...text('repoURL')}
          />
          {chart ? (
            <TextInput label="Chart" {...text('chart')} />
          ) : (
            <TextInput label="Path" placeholder="." {...text('path')} />
          )}
          <TextInput
            label={chart ? 'Version' : 'Revision'}
            description={chart ? 'A version, or a range such as 1.*' : 'A branch, a tag or a commit'}
            placeholder={chart ? '' : 'HEAD'}
            {...text('targetRevision')}
          />
        </div>
      </section>
      <section className="panel" aria-labelledby="destination">
        <header>
          <h2 id="destination">Destination</h2>
        </header>
        <div className="body stack" style={NARROW}>
          <NativeSelect label="Cluster" data={choices(clusters, fields.cluster)} {...text('cluster')} />
          <TextInput label="Namespace" {...text('namespace')} />
          <Checkbox label="Create the namespace if it is missing" {...tick('createNamespace')} />
        </div>
      </section>
      <section className="panel" aria-labelledby="how">
        <header>
          <h2 id="how">Sync</h2>
        </header>
        <div className="body stack" style={NARROW}>
          <Checkbox
            label="Sync automatically"
            description="Otherwise somebody presses Sync."
            {...tick('automated')}
          />
          <Checkbox
            label="Prune: delete what is no longer in Git"
            disabled={!fields.automated}
            {...tick('prune')}
          />
          <Checkbox
            label="Self-heal: undo what somebody changes in the cluster"
            disabled={!fields.automated}
            {...tick('selfHeal')}
          />
        </div>
      </section>
    </>
  );
}

/** What the text says stays a choice, also when the runtime does not know it. Addresses are for administrators, so others have names. */
function choices(clusters: ManagedCluster[], chosen: string) {
  const known = clusters.map(({ name, server, isOwn }) => ({
    value: isOwn ? OWN_CLUSTER : server && server === chosen ? server : `name:${name}`,
    label: isOwn ? `${name} (where the runtime is)` : name,
  }));
  if (chosen && !known.some(({ value }) => value === chosen))
    known.push({ value: chosen, label: chosen.replace(/^name:/, '') });
  return [...(chosen ? [] : [{ value: '', label: 'Choose a cluster' }]), ...known];
}
