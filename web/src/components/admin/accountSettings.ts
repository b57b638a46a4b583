/**
 * The settings of an account between the wire and a form. What the form does not know stays as it came, so that an
 * older page does not take a newer server's settings away.
 */

export interface AccountForm {
  /** As typed. What is no number goes as it is, for the server to say so. */
  inactivityMinutes: string;
  sessionHours: string;
  keepBuildsDays: string;
  keepLogsDays: string;
  allowedDomains: string[];
  passwordLogin: boolean;
}

export function readSettings(settings: Record<string, unknown>): AccountForm {
  const domains = settings['allowedDomains'];
  return {
    inactivityMinutes: typed(settings['inactivityMinutes']),
    sessionHours: typed(settings['sessionHours']),
    keepBuildsDays: typed(settings['keepBuildsDays']),
    keepLogsDays: typed(settings['keepLogsDays']),
    allowedDomains: Array.isArray(domains) ? domains.filter((each) => typeof each === 'string') : [],
    passwordLogin: settings['passwordLogin'] !== false,
  };
}

const typed = (value: unknown): string => (typeof value === 'number' ? String(value) : '');

export function writeSettings(before: Record<string, unknown>, form: AccountForm): Record<string, unknown> {
  const after: Record<string, unknown> = {
    ...before,
    allowedDomains: form.allowedDomains,
    passwordLogin: form.passwordLogin,
  };
  for (const name of ['inactivityMinutes', 'sessionHours', 'keepBuildsDays', 'keepLogsDays'] as const) {
    const value = toNumber(form[name]);
    // Left empty, it has its default again.
    if (value === undefined) delete after[name];
    else after[name] = value;
  }
  return after;
}

/** Nothing for nothing; what is no number stays what it is. */
export function toNumber(text: string): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) ? number : trimmed;
}
