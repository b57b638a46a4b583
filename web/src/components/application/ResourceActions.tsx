import { Button, Menu, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { notifications } from '@mantine/notifications';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import { actionsQuery } from '../../api/queries';
import type { ResourceAction, ResourceRef } from '../../api/types';
import { Action } from '../../ui/Action';
import { FormDialog } from '../../ui/FormDialog';
import { ChevronDown } from '../../ui/icons';
import { sentence, toFailure } from '../../ui/States';

interface ResourceActionsProps {
  reference: ApplicationRef;
  of: ResourceRef;
  disabledReason: string | undefined;
}

const titleOf = ({ name, displayName }: ResourceAction) =>
  displayName || sentence(name.replaceAll('-', ' ')).replace(/\.$/, '');

/** What can be done to one object: its runtime knows, also what argocd-cm adds. Asked when the menu is opened. */
export function ResourceActions({ reference, of, disabledReason }: ResourceActionsProps) {
  const [opened, setOpened] = useState(false);
  const [chosen, setChosen] = useState<ResourceAction>();
  if (disabledReason) {
    return (
      <Action disabledReason={disabledReason} size="xs" onClick={() => {}}>
        Actions
      </Action>
    );
  }
  return (
    <>
      <Menu opened={opened} onChange={setOpened} position="bottom-start" withinPortal>
        <Menu.Target>
          <Button size="xs" variant="default" rightSection={<ChevronDown />}>
            Actions
          </Button>
        </Menu.Target>
        <Menu.Dropdown>{opened && <Offered {...{ reference, of }} onChoose={setChosen} />}</Menu.Dropdown>
      </Menu>
      {chosen && <ActionDialog {...{ reference, of }} action={chosen} onClose={() => setChosen(undefined)} />}
    </>
  );
}

function Offered(
  props: Omit<ResourceActionsProps, 'disabledReason'> & { onChoose: (one: ResourceAction) => void },
) {
  const { reference, of, onChoose } = props;
  const offered = useQuery(actionsQuery(reference, of));
  if (offered.isPending) return <Menu.Label>Asking the runtime…</Menu.Label>;
  if (offered.isError) return <Menu.Label>{sentence(toFailure(offered.error).message)}</Menu.Label>;
  const { actions } = offered.data;
  if (actions.length === 0) return <Menu.Label>There are no actions for this kind.</Menu.Label>;
  return actions.map((action) => (
    <Menu.Item key={action.name} disabled={action.disabled} onClick={() => onChoose(action)}>
      {titleOf(action)}
      {action.disabled && ' (not now)'}
    </Menu.Item>
  ));
}

interface ActionDialogProps {
  reference: ApplicationRef;
  of: ResourceRef;
  action: ResourceAction;
  onClose: () => void;
}

function ActionDialog({ reference, of, action, onClose }: ActionDialogProps) {
  const queryClient = useQueryClient();
  const names = action.parameters ?? [];
  const form = useForm<Record<string, string>>({
    initialValues: Object.fromEntries(names.map((name) => [name, ''])),
    validate: Object.fromEntries(
      names.map((name) => [name, (value: string) => (value.trim() ? null : `Enter ${name}`)]),
    ),
  });
  const run = async () => {
    const parameters = Object.fromEntries(names.map((name) => [name, form.values[name]?.trim() ?? '']));
    const { message } = await appProxy.action(reference, { ...of, action: action.name, parameters });
    notifications.show({ color: 'petrol', title: titleOf(action), message: sentence(message) });
    await queryClient.invalidateQueries({ queryKey: ['applications'] });
  };
  return (
    <FormDialog
      title={`${titleOf(action)} ${of.kind} ${of.resourceName}?`}
      verb={titleOf(action)}
      onClose={onClose}
      submit={() => (form.validate().hasErrors ? undefined : run)}
    >
      <p>It is done in the cluster, now. What Git says differently comes back with the next sync.</p>
      {names.map((name) => (
        <TextInput key={name} label={name} {...form.getInputProps(name)} />
      ))}
    </FormDialog>
  );
}
