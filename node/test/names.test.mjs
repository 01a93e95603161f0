// Names and patterns, on the tables that the binary is checked with too (contract §4, §5).

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { branchNameOf, DEFAULT_EXCLUDES, isExcluded, refOf, strategy } from '../index.js';

function vectors(name) {
  const path = new URL(`../../fixtures/vectors/${name}`, import.meta.url);
  return JSON.parse(readFileSync(path, 'utf8')).cases;
}

test('branchNameOf gives the names of the shared table', () => {
  const cases = vectors('branch_names.json');
  assert.ok(cases.length > 30);
  for (const { id, name } of cases) {
    assert.equal(branchNameOf(id), name, JSON.stringify(id));
  }
});

test('branchNameOf takes strings alone', () => {
  assert.throws(() => branchNameOf(undefined), TypeError);
  assert.throws(() => branchNameOf(9), TypeError);
});

test('refOf is the full name of the branch', () => {
  assert.equal(refOf('github:owner/repo#9:s1'), 'refs/heads/issue/9-s1');
  assert.equal(strategy.refOf('x'), 'refs/heads/issue/x');
});

test('isExcluded answers as the shared table says', () => {
  const cases = vectors('exclude_patterns.json');
  assert.ok(cases.length > 10);
  for (const { pattern, hit, miss } of cases) {
    hit.forEach((path) => assert.equal(isExcluded(path, [pattern]), true, `${pattern} on ${path}`));
    miss.forEach((path) => assert.equal(isExcluded(path, [pattern]), false, `${pattern} on ${path}`));
  }
});

test('isExcluded answers for that one path, not for what lies below a match', () => {
  assert.equal(isExcluded('secrets', ['secrets']), true);
  assert.equal(isExcluded('secrets/key', ['secrets']), false);
  assert.equal(isExcluded('x/file', ['x/']), false);
  assert.equal(isExcluded('x/', ['x/']), true);
});

test('isExcluded: no pattern, several patterns, patterns that can match nothing', () => {
  assert.equal(isExcluded('.env', []), false);
  assert.equal(isExcluded('k/x.pem', ['.env', '*.pem']), true);
  for (const pattern of ['/x', './x', 'x//y', '', ' ', 'a/../x']) {
    assert.equal(isExcluded('x', [pattern]), false, pattern);
  }
  assert.equal(isExcluded('A', ['a']), false, 'case matters');
  assert.equal(isExcluded('a\nb', ['a*b']), true);
  assert.equal(isExcluded('d/a+b(c)', ['a+b(c)']), true);
});

test('the default list', () => {
  assert.deepEqual([...DEFAULT_EXCLUDES], ['.env', '.env.*']);
  assert.equal(Object.isFrozen(DEFAULT_EXCLUDES), true);
});
