// Without a binary: the package can be imported, and every job says what is missing.

import assert from 'node:assert/strict';
import { test } from 'node:test';

delete process.env.ISOFOLD_BIN;
process.env.PATH = '/nonexistent';

const { branchNameOf, createStrategy, gitReference, isExcluded, runIntegrator, runIsolator, strategy } =
  await import('../index.js');

const WORDS = /the isofold binary was not found: install it on PATH, put it beside the package, or name it in ISOFOLD_BIN/;
const request = { parent: '/parent', child: '/child' };

test('what needs no binary works', () => {
  assert.equal(branchNameOf('github:owner/repo#9'), 'issue/9');
  assert.equal(isExcluded('a/.env', ['.env']), true);
  assert.equal(createStrategy({ exclude: [] }).ok, true);
  assert.equal(gitReference.parse({ remote: '/r', branch: 'main' }).ok, true);
});

test('attach, fold and abort say that it is missing', async () => {
  for (const job of [strategy.isolation.attach(request), strategy.fold.fold(request), strategy.isolation.abort(request)]) {
    const result = await job;
    assert.deepEqual([Object.keys(result), result.ok], [['ok', 'detail'], false]);
    assert.match(result.detail, WORDS);
  }
});

test('a reference says that it is missing', async () => {
  const reference = gitReference.parse({ remote: '/r', branch: 'main' });
  const inspected = reference.inspect('/copy');
  assert.equal(inspected.kind, 'mismatch');
  assert.match(inspected.reason, WORDS);
  assert.match((await reference.materialize('/copy')).reason, WORDS);
});

test('the host face says that it is missing, in its lines', async () => {
  for (const [run, code, last] of [[runIsolator, 1, 'isolation-finished'], [runIntegrator, 3, 'integration-finished']]) {
    const lines = [];
    const result = await run({ invocation: { id: 'w', ...request }, write: (line) => lines.push(JSON.parse(line)) });
    assert.deepEqual([result.outcome, result.exitCode], ['failed', code]);
    assert.match(result.report, WORDS);
    assert.equal(lines.at(-1).event, last);
  }
});
