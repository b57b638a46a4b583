/** What a record says about the change: before, after, and why not. Objects become text with their names in order. */

export interface AuditDetail {
  before?: string;
  after?: string;
  reason?: string;
}

export function readDetail(detail: unknown): AuditDetail {
  if (typeof detail !== 'object' || detail === null) return {};
  const { before, after, reason } = detail as Record<string, unknown>;
  return {
    ...(present(before) ? { before: pretty(before) } : {}),
    ...(present(after) ? { after: pretty(after) } : {}),
    ...(typeof reason === 'string' && reason !== '' ? { reason } : {}),
  };
}

const present = (value: unknown): boolean => value !== undefined && value !== null;

/** The same content gives the same text, whatever order it came in: a diff then shows changes only. */
export function pretty(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(sorted(value), null, 2);
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]),
  );
}
