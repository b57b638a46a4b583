// Log text, and its stream of server-sent events.

const ESC = '\u001b';
const green = (text) => `${ESC}[32m${text}${ESC}[0m`;
const red = (text) => `${ESC}[1;31m${text}${ESC}[0m`;
const dim = (text) => `${ESC}[2m${text}${ESC}[0m`;

/** What each kind of step prints. */
export const texts = {
  clone: [
    'Cloning http://127.0.0.1:8080/git/demo/demo-app.git\n',
    "Cloning into '/workspace/demo-app'...\n",
    'remote: Counting objects: 100% (48/48), done.\r\nReceiving objects:  33% (16/48)\rReceiving objects: 100% (48/48), done.\n',
    'HEAD is now at 9f2c41d greet in a friendlier way\n',
  ],
  test: [
    `${dim('$')} cargo test --quiet\n`,
    'running 42 tests\n',
    ...Array.from({ length: 42 }, (_, index) => `test greeting::case_${index + 1} ... ${green('ok')}\n`),
    `\ntest result: ${green('ok')}. 42 passed; 0 failed; finished in 1.31s\n`,
  ],
  testFailed: [
    `${dim('$')} cargo test --quiet\n`,
    'running 42 tests\n',
    ...Array.from({ length: 41 }, (_, index) => `test greeting::case_${index + 1} ... ${green('ok')}\n`),
    `test greeting::is_friendly ... ${red('FAILED')}\n`,
    `\n${ESC}[33mwarning: the next lines keep their colour\nover the line end, as compilers do${ESC}[0m\n`,
    `thread 'greeting::is_friendly' panicked at src/greeting.rs:17:5:\nassertion failed: greeting("Ada").contains("Hello")\n`,
    `\ntest result: ${red('FAILED')}. 41 passed; 1 failed; finished in 1.29s\n`,
  ],
  build: [
    'STEP 1/5: FROM registry.local/base:1\n',
    'STEP 2/5: COPY target/demo /usr/bin/demo\n',
    'STEP 3/5: ENV A_VERY_LONG_LINE=' + 'abcdefghij '.repeat(40) + '\n',
    'STEP 4/5: USER 1000\n',
    'STEP 5/5: ENTRYPOINT ["/usr/bin/demo"]\n',
    `${green('✓')} pushed demo-app:9f2c41d  ${dim('sha256:4a1e…')}\n`,
  ],
  deploy: [
    'Writing image tag 9f2c41d to demo-deploy/app/deployment.yaml\n',
    '[main 71c0b2e] deploy demo-app 9f2c41d\n 1 file changed, 1 insertion(+), 1 deletion(-)\n',
    'To http://127.0.0.1:8080/git/demo/demo-deploy.git\n   5a22f01..71c0b2e  main -> main\n',
  ],
};

/** Sends what there is after `Last-Event-ID`, then what comes, then `end`. */
export function streamLog(build, request, response, state) {
  if (!build) {
    response.writeHead(404);
    response.end();
    return;
  }
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  response.flushHeaders();
  const after = Number(request.headers['last-event-id'] ?? -1);
  if (build.hugeLines) return streamHuge(build, after, response);
  let sent = after + 1;
  const flush = () => {
    for (; sent < build.chunks.length; sent++) event(response, build.chunks[sent]);
    if (build.finished) {
      response.write('event: end\ndata: {}\n\n');
      response.end();
      state.unlisten(flush);
    }
  };
  state.listen(flush);
  response.on('close', () => state.unlisten(flush));
  flush();
}

function event(response, chunk) {
  return response.write(`id: ${chunk.seq}\ndata: ${JSON.stringify(chunk)}\n\n`);
}

const LINES_PER_CHUNK = 1000;

/** Millions of lines without holding them: made as fast as the browser takes them. */
async function streamHuge(build, after, response) {
  const chunks = Math.ceil(build.hugeLines / LINES_PER_CHUNK);
  let offset = 0;
  for (let seq = after + 1; seq < chunks && !response.destroyed; seq++) {
    let text = '';
    for (
      let line = seq * LINES_PER_CHUNK;
      line < Math.min((seq + 1) * LINES_PER_CHUNK, build.hugeLines);
      line++
    ) {
      text +=
        line % 50_000 === 7
          ? `${red('ERROR')} needle number ${line} in the haystack\n`
          : `${line} compiled unit ${line % 977} in ${(line * 7919) % 1000} ms ${green('ok')}\n`;
    }
    if (!event(response, { seq, step: 'compile', offset, text })) {
      await new Promise((done) => {
        const go = () => {
          response.off('drain', go).off('close', go);
          done();
        };
        response.on('drain', go).on('close', go);
      });
    }
    offset += text.length;
  }
  if (response.destroyed) return;
  response.write('event: end\ndata: {}\n\n');
  response.end();
}
