/** Days of the audit filter, as the address writes them (`2026-11-16`), in the time zone of whoever looks. */

/** The first millisecond of a day; nothing for what is no day. */
export function dayStart(day: string | undefined): number | undefined {
  const at = local(day);
  return at?.getTime();
}

/** The last millisecond of a day. The next day's first, less one: a day may have 23 or 25 hours. */
export function dayEnd(day: string | undefined): number | undefined {
  const at = local(day);
  if (!at) return undefined;
  at.setDate(at.getDate() + 1);
  return at.getTime() - 1;
}

function local(day: string | undefined): Date | undefined {
  const parts = /^(\d{4})-(\d{2})-(\d{2})$/.exec(day ?? '');
  if (!parts) return undefined;
  const [year, month, date] = parts.slice(1).map(Number) as [number, number, number];
  const at = new Date(year, month - 1, date);
  // The 31st of a month with 30 days is another day: a mistake, not a wish.
  return at.getMonth() === month - 1 && at.getDate() === date ? at : undefined;
}
