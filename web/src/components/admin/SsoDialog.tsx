import { Checkbox, PasswordInput, TagsInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import type { ChangeSsoClient, CreateSsoClient, SsoClient, SsoSettings } from '../../api/types';
import { FormDialog } from '../../ui/FormDialog';

interface SsoDialogProps {
  /** Absent: a new one. */
  provider?: SsoClient;
  onClose: () => void;
  create?: (request: CreateSsoClient) => Promise<unknown>;
  update?: (request: ChangeSsoClient) => Promise<unknown>;
}

/** An OpenID Connect provider. The server asks it for its discovery before it keeps it. */
export function SsoDialog({ provider, onClose, create, update }: SsoDialogProps) {
  const before = provider?.settings;
  const form = useForm({
    initialValues: {
      name: provider?.name ?? '',
      displayName: before?.displayName ?? '',
      issuer: before?.issuer ?? '',
      clientId: before?.clientId ?? '',
      clientSecret: '',
      scopes: before?.scopes ?? ['openid', 'profile', 'email'],
      groupsClaim: before?.groupsClaim ?? '',
      adminGroup: before?.adminGroup ?? '',
      createMembers: before?.createMembers ?? false,
    },
    validate: {
      name: (name) => (name.trim() ? null : 'Enter a name'),
      issuer: (issuer) => (issuer.trim() ? null : "Enter the provider's address"),
      clientId: (id) => (id.trim() ? null : 'Enter the client ID'),
    },
  });
  const submit = () => {
    if (form.validate().hasErrors) return undefined;
    const { name, clientSecret, groupsClaim, adminGroup, ...rest } = form.values;
    const settings: SsoSettings = {
      ...rest,
      issuer: rest.issuer.trim(),
      clientId: rest.clientId.trim(),
      groupsClaim: groupsClaim.trim() || null,
      adminGroup: adminGroup.trim() || null,
    };
    const secret = clientSecret ? { clientSecret } : {};
    return async () =>
      provider ? update?.({ settings, ...secret }) : create?.({ name: name.trim(), settings, ...secret });
  };
  return (
    <FormDialog
      title={provider ? `Edit ${before?.displayName || provider.name}` : 'New identity provider'}
      verb={provider ? 'Save' : 'Check and add'}
      size="lg"
      onClose={onClose}
      submit={submit}
    >
      {!provider && (
        <TextInput
          data-autofocus
          label="Name"
          description="Part of the callback URL: lowercase letters, digits and hyphens"
          placeholder="gitea"
          {...form.getInputProps('name')}
        />
      )}
      <TextInput
        label="Display name"
        description="Shown on the sign-in page: Sign in with …"
        placeholder="Gitea"
        {...form.getInputProps('displayName')}
      />
      <TextInput
        label="Issuer"
        description="Its discovery document is at this URL plus /.well-known/openid-configuration"
        placeholder="https://git.example.com/"
        {...form.getInputProps('issuer')}
      />
      <TextInput label="Client ID" {...form.getInputProps('clientId')} />
      <PasswordInput
        label="Client secret"
        {...(provider?.hasSecret ? { description: 'Leave empty to keep the current one' } : {})}
        autoComplete="off"
        {...form.getInputProps('clientSecret')}
      />
      <TagsInput label="Scopes" {...form.getInputProps('scopes')} />
      <TextInput
        label="Groups claim"
        description="Each group becomes a team of the same name; leave empty to import no teams"
        placeholder="groups"
        {...form.getInputProps('groupsClaim')}
      />
      <TextInput label="Administrators group" {...form.getInputProps('adminGroup')} />
      <Checkbox
        label="Add people on their first sign-in"
        description="Only with an address of a verified domain; everyone else needs an invitation first"
        {...form.getInputProps('createMembers', { type: 'checkbox' })}
      />
    </FormDialog>
  );
}
