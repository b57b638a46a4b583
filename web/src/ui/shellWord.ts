/** A word of a command that people copy into a shell, as one word whatever it holds: names come from runtimes, which may say anything. */
export const shellWord = (text: string): string =>
  /^[A-Za-z0-9][\w@%+=:,./-]*$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
