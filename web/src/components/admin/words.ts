/** Words of the API, as people read them. A word that is not known is shown as it is. */

const ROLES: Record<string, string> = { User: 'User', Admin: 'Administrator' };
const LIMITS: Record<string, string> = {
  seats: 'Seats',
  runtimes: 'Runtimes',
  clusters: 'Clusters',
  applications: 'Applications',
  parallelBuilds: 'Parallel builds',
};
const SOURCES: Record<string, string> = {
  manual: 'manually',
  sso: 'from the identity provider',
  role: 'by role',
};

export const roleText = (role: string): string => ROLES[role] ?? role;
export const limitText = (name: string): string => LIMITS[name] ?? name;
export const sourceText = (source: string | undefined): string => SOURCES[source ?? ''] ?? source ?? '';
export const roleChoices = Object.entries(ROLES).map(([value, label]) => ({ value, label }));
/** The limits that can be set, in the order of the page. */
export const limitNames = Object.keys(LIMITS);
