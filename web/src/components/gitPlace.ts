/** Git providers as people call them. */
import type { GitPlace } from '../api/gitAccess';

export const PROVIDERS = [
  { value: 'github', label: 'GitHub' },
  { value: 'gitlab', label: 'GitLab' },
  { value: 'gitea', label: 'Gitea' },
  { value: 'bitbucket', label: 'Bitbucket Cloud' },
  { value: 'bitbucket-server', label: 'Bitbucket Data Center' },
];

const labelOf = (provider: string) => PROVIDERS.find(({ value }) => value === provider)?.label ?? provider;

export const placeText = ({ provider, host }: GitPlace) =>
  host ? `${labelOf(provider)} at ${host}` : labelOf(provider);
