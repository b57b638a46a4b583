/** A value as YAML that people write. What could be read as something else is put in quotes, as JSON writes them. */
export function yamlText(value: unknown): string {
  return isEmpty(value) || !isNested(value) ? `${scalar(value, '')}\n` : `${lines(value, '').join('\n')}\n`;
}

const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;
const isEmpty = (value: unknown) => isNested(value) && Object.keys(value).length === 0;

// Words that some reader takes for a truth value or nothing.
const MEANT = /^(true|false|yes|no|on|off|y|n|null)$/i;
const plain = (text: string) =>
  /^[A-Za-z_$./][\w ./=$-]*$/.test(text) && !text.endsWith(' ') && !MEANT.test(text);
// Of keys: pipelines have `on`, and whoever reads pipelines reads it as a word.
const word = (text: string) =>
  /^[A-Za-z_][\w-]*$/.test(text) && !/^(true|false|null)$/i.test(text) ? text : JSON.stringify(text);

// A block keeps its text only if no line begins or ends in white space.
const fitsBlock = (text: string) =>
  /^\S.*\S$/.test(text.replaceAll('\n', ' ')) && !/[\t\r]|^\s|\s$|\n\s|[^\S\n]\n|\n\n/.test(text);

function scalar(value: unknown, indent: string): string {
  if (typeof value !== 'string') return JSON.stringify(value ?? null);
  if (plain(value)) return value;
  const ends = value.endsWith('\n');
  const body = ends ? value.slice(0, -1) : value;
  if (!body.includes('\n') || !fitsBlock(body)) return JSON.stringify(value);
  return [ends ? '|' : '|-', ...body.split('\n').map((line) => `${indent}${line}`)].join('\n');
}

function lines(value: object, indent: string): string[] {
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    return value.flatMap((item: unknown) => {
      if (!isNested(item) || isEmpty(item)) return [`${indent}- ${scalar(item, inner)}`];
      const [first = '', ...rest] = lines(item, inner);
      return [`${indent}- ${first.trimStart()}`, ...rest];
    });
  }
  return Object.entries(value).flatMap(([key, item]: [string, unknown]) => {
    if (item === undefined) return [];
    if (!isNested(item) || isEmpty(item)) return [`${indent}${word(key)}: ${scalar(item, inner)}`];
    return [`${indent}${word(key)}:`, ...lines(item, inner)];
  });
}
