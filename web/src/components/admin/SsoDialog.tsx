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
      name: (name) => (name.trim() ? null : 'Give it a name'),
      issuer: (issuer) => (issuer.trim() ? null : "Enter the provider's address"),
      clientId: (id) => (id.trim() ? null : 'Enter what the provider calls Slipway'),
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
      title={provider ? `Change ${before?.displayName || provider.name}` : 'New identity provider'}
      verb={provider ? 'Save' : 'Check and add'}
      size="lg"
      onClose={onClose}
      submit={submit}
    >
      {!provider && (
        <TextInput
          data-autofocus
          label="Name"
          description="Part of the callback address: lowercase letters, digits and hyphens"
          placeholder="gitea"
          {...form.getInputProps('name')}
        />
      )}
      <TextInput
        label="On the sign-in page"
        description="Sign in with …"
        placeholder="Gitea"
        {...form.getInputProps('displayName')}
      />
      <TextInput
        label="Issuer"
        description="Its discovery is at this address plus /.well-known/openid-configuration"
        placeholder="https://git.example.com/"
        {...form.getInputProps('issuer')}
      />
      <TextInput label="Client id" {...form.getInputProps('clientId')} />
      <PasswordInput
        label="Client secret"
        {...(provider?.hasSecret ? { description: 'Left empty, it stays as it is' } : {})}
        autoComplete="off"
        {...form.getInputProps('clientSecret')}
      />
      <TagsInput label="Scopes to ask for" {...form.getInputProps('scopes')} />
      <TextInput
        label="Claim that lists a person's groups"
        description="Each group becomes a team of its name; left empty, no teams come from there"
        placeholder="groups"
        {...form.getInputProps('groupsClaim')}
      />
      <TextInput label="Group whose members are Administrators" {...form.getInputProps('adminGroup')} />
      <Checkbox
        label="Whoever the provider vouches for becomes a member"
        description="With an address of a verified domain. Otherwise they need an invitation to their e-mail first"
        {...form.getInputProps('createMembers', { type: 'checkbox' })}
      />
    </FormDialog>
  );
}
