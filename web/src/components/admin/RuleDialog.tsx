import { ActionIcon, Button, MultiSelect, NativeSelect, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import type { Rule, RuleAttribute, RuleKind, RuleSpec } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';
import { Cross } from '../../ui/icons';
import { ruleFields } from './rules';
import { TeamsField } from './TeamsField';

interface RuleForm {
  entityType: string;
  teams: string[];
  actions: string[];
  relatedResource: string;
  tags: string[];
  tagMatch: string;
  attributes: (RuleAttribute & { id: number })[];
}

interface RuleDialogProps {
  kinds: RuleKind[];
  /** Absent: a new one. */
  rule?: Rule;
  onClose: () => void;
  save: (spec: RuleSpec) => Promise<unknown>;
}

let nextId = 0;

/** One rule. What fits together the server says, all findings at once. */
export function RuleDialog({ kinds, rule, onClose, save }: RuleDialogProps) {
  const form = useForm<RuleForm>({
    initialValues: {
      entityType: rule?.entityType ?? kinds[0]?.entityType ?? '',
      teams: rule?.teamNames ?? [],
      actions: rule?.actions ?? [],
      relatedResource: rule?.relatedResource ?? '',
      tags: rule?.tags ?? [],
      tagMatch: rule?.tagMatch ?? 'any',
      attributes: (rule?.entityAttributes ?? []).map((attribute) => ({ ...attribute, id: nextId++ })),
    },
    validate: {
      teams: (teams, { attributes }) =>
        teams.length > 0 || !ruleFields(undefined, attributes).teams ? null : 'Select at least one team',
      actions: (actions) => (actions.length > 0 ? null : 'Select at least one action'),
    },
  });
  const { entityType, attributes } = form.values;
  const kind = kinds.find((each) => each.entityType === entityType);
  const fields = ruleFields(kind, attributes);
  const submit = () => {
    if (form.validate().hasErrors) return undefined;
    const { relatedResource, attributes, teams, ...rest } = form.values;
    const spec: RuleSpec = {
      ...rest,
      teams: fields.teams ? teams : [],
      ...(relatedResource ? { relatedResource } : {}),
      entityAttributes: attributes.map(({ name, key, value }) => ({ name, value, ...(key ? { key } : {}) })),
    };
    return () => save(spec);
  };
  return (
    <FormDialog
      title={rule ? 'Edit rule' : 'New rule'}
      verb={rule ? 'Save' : 'Create rule'}
      size="lg"
      onClose={onClose}
      submit={submit}
    >
      <NativeSelect
        label="Resource"
        data={kinds.map((each) => each.entityType)}
        {...form.getInputProps('entityType')}
        onChange={(event) =>
          form.setValues({
            entityType: event.currentTarget.value,
            actions: [],
            tags: [],
            relatedResource: '',
            attributes: [],
          })
        }
      />
      {fields.teams && <TeamsField all label="Teams" {...form.getInputProps('teams')} />}
      <MultiSelect
        label="Actions"
        data={kind?.actions ?? []}
        searchable
        clearable
        {...form.getInputProps('actions')}
      />
      {fields.tags && (
        <div className="row" style={{ alignItems: 'flex-start' }}>
          <TagsInput
            style={{ flex: 1 }}
            label="Tags"
            description="* matches everything, untagged matches items without tags"
            {...form.getInputProps('tags')}
          />
          <NativeSelect
            label="Match"
            data={[
              { value: 'any', label: 'any tag' },
              { value: 'all', label: 'all tags' },
            ]}
            {...form.getInputProps('tagMatch')}
          />
        </div>
      )}
      {entityType === 'pipeline' && (
        <NativeSelect
          label="Tags of"
          data={[
            { value: '', label: 'the resource itself' },
            { value: 'project', label: "the pipeline's project" },
          ]}
          {...form.getInputProps('relatedResource')}
        />
      )}
      {fields.attributes.length > 0 && (
        <fieldset className="stack" style={{ border: 0, padding: 0, margin: 0, gap: 6 }}>
          <legend style={{ padding: 0, marginBottom: 4, fontSize: 13, fontWeight: 560 }}>Attributes</legend>
          {attributes.map((attribute, index) => (
            <div key={attribute.id} className="row" style={{ alignItems: 'flex-start' }}>
              <NativeSelect
                aria-label={`Attribute ${index + 1}`}
                data={fields.attributes}
                {...form.getInputProps(`attributes.${index}.name`)}
              />
              {attribute.name === 'LABEL' && (
                <TextInput
                  aria-label={`Key of attribute ${index + 1}`}
                  placeholder="key"
                  style={{ flex: 1 }}
                  {...form.getInputProps(`attributes.${index}.key`)}
                />
              )}
              <TextInput
                aria-label={`Value of attribute ${index + 1}`}
                placeholder="value, * for anything"
                style={{ flex: 1 }}
                {...form.getInputProps(`attributes.${index}.value`)}
              />
              <ActionIcon
                variant="subtle"
                color="gray"
                size="lg"
                aria-label={`Remove attribute ${index + 1}`}
                onClick={() => form.removeListItem('attributes', index)}
              >
                <Cross />
              </ActionIcon>
            </div>
          ))}
          <div>
            <Button
              variant="subtle"
              size="compact-sm"
              onClick={() =>
                form.insertListItem('attributes', {
                  id: nextId++,
                  name: fields.attributes[0] ?? '',
                  key: '',
                  value: '',
                })
              }
            >
              Add attribute
            </Button>
          </div>
        </fieldset>
      )}
    </FormDialog>
  );
}
