// Types of the HTTP contract, from the OpenAPI document that the server commits.
// In: openapi/slipway.json. Out: src/api/generated/schema.ts (not committed; only the type checker reads it).
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';

const contract = new URL('../../openapi/slipway.json', import.meta.url);
const target = new URL('../src/api/generated/schema.ts', import.meta.url);

const text = await readFile(contract, 'utf8').catch(() => {
  console.error(`cannot read ${fileURLToPath(contract)}: write it with \`cargo xtask generate\` first`);
  process.exit(1);
});
// Fields with a server-side default are always present in answers, but need not be sent: the generated types keep
// them optional, and the pages treat absent and default alike.
const ast = await openapiTS(JSON.parse(text), { alphabetize: true, emptyObjectsUnknown: true });
const types = `/* Generated from openapi/slipway.json by \`npm run generate\`. Do not edit. */\n${astToString(ast)}`;

await mkdir(new URL('.', target), { recursive: true });
const before = await readFile(target, 'utf8').catch(() => '');
// An unchanged file keeps its time stamp, so that watchers do not wake.
if (before !== types) await writeFile(target, types);
