// Types of the HTTP contracts, from the OpenAPI documents in openapi/. Out: src/api/generated, which is not
// committed: only the type checker and editors read it.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import openapiTS, { astToString } from 'openapi-typescript';

/** `slipway` is the control plane, `app-proxy` the runtime. */
const contracts = ['slipway', 'app-proxy'];

async function generate(name) {
  const contract = new URL(`../../openapi/${name}.json`, import.meta.url);
  const target = new URL(`../src/api/generated/${name}.ts`, import.meta.url);
  const text = await readFile(contract, 'utf8').catch(() => {
    console.error(`cannot read ${fileURLToPath(contract)}: it is committed; check the work tree`);
    process.exit(1);
  });
  const document = JSON.parse(text);
  // The pages use paths and schemas; without ids the operations are written where their path is.
  for (const path of Object.values(document.paths))
    for (const operation of Object.values(path)) delete operation.operationId;
  const ast = await openapiTS(document, { alphabetize: true, emptyObjectsUnknown: true });
  const types = `/* Generated from openapi/${name}.json by \`npm run generate\`. Do not edit. */\n${astToString(ast)}`;
  await mkdir(new URL('.', target), { recursive: true });
  const before = await readFile(target, 'utf8').catch(() => '');
  // An unchanged file keeps its time stamp, so that watchers do not wake.
  if (before !== types) await writeFile(target, types);
}

await Promise.all(contracts.map(generate));
