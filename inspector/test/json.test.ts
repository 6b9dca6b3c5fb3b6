import assert from 'node:assert/strict';
import { test } from 'node:test';
import { equal, JsonError, kindOf, lift, Num, Obj, parse, preview, print } from '../src/data/json.ts';

test('a value survives parsing and printing to the last digit', () => {
  const texts = [
    '18446744073709551615',
    '-9223372036854775808',
    '1.10',
    '1e400',
    '{"2": 1, "1": 2, "__proto__": [], "a": 1, "a": 2}',
    '["\\u0000", "\\"", "\\\\", "é😀"]',
    'null',
    'true',
    '""',
    '[]',
    '{}',
  ];
  for (const text of texts) assert.equal(print(parse(text)), text);
  assert.equal(print(parse('[1,{"a":[]}]'), '  '), '[\n  1,\n  {\n    "a": []\n  }\n]');
});

test('the last of two equal keys counts', () => {
  const found = parse('{"a": 1, "a": 2}');
  assert.ok(found instanceof Obj);
  assert.deepEqual(found.get('a'), new Num('2'));
  assert.equal(found.get('b'), undefined);
});

test('an error names its place', () => {
  const cases: [string, number, number, RegExp][] = [
    ['', 1, 1, /empty/],
    ['{"a": 1,\n "b": }', 2, 7, /value is expected, not “}”/],
    ['{"a" 1}', 1, 6, /“:” is expected/],
    ['[1 2]', 1, 4, /“,” or “]” is expected/],
    ['{a: 1}', 1, 2, /key in double quotes/],
    ['hello', 1, 1, /value is expected/],
    ['tru', 1, 1, /double quotes/],
    ['"a\nb"', 1, 3, /line break/],
    ['"\\x"', 1, 2, /means nothing/],
    ['"\\u12"', 1, 2, /hexadecimal/],
    ['"open', 1, 6, /ends inside/],
    ['1 2', 1, 3, /after the end/],
    ['01', 1, 2, /after the end/],
    ['NaN', 1, 1, /expected/],
    ['[1,]', 1, 4, /value is expected/],
  ];
  for (const [text, line, column, message] of cases) {
    assert.throws(
      () => parse(text),
      (error) => {
        assert.ok(error instanceof JsonError, text);
        assert.deepEqual([error.line, error.column], [line, column], text);
        assert.match(error.message, message);
        return true;
      },
    );
  }
});

test('text that is nested too deeply is refused, not crashed on', () => {
  assert.throws(() => parse('['.repeat(100_000)), JsonError);
});

test('a preview is short, whatever the value', () => {
  const long = parse(`{"a": ${JSON.stringify('x'.repeat(1000))}, "b": [${'1,'.repeat(5000)}1]}`);
  assert.ok(preview(long, 50).length <= 52);
  assert.equal(preview(parse('{"a": [1, null]}')), '{a: [1, null]}');
  assert.equal(preview(undefined), 'absent');
});

test('null, empty and absent have different words', () => {
  const words = [undefined, null, '', [], new Obj([]), new Num('0'), false].map(kindOf);
  assert.equal(new Set(words).size, words.length);
});

test('equality is exact', () => {
  assert.ok(equal(parse('{"a": [1]}'), parse('{ "a":[1] }')));
  assert.ok(!equal(parse('18446744073709551615'), parse('18446744073709551614')));
  assert.ok(!equal(null, undefined));
  assert.ok(!equal('1', new Num('1')));
});

test('a record is plain, and its values stay exact', () => {
  const found = lift(parse('{"revision": 3, "after": 18446744073709551615}'), new Set(['after'])) as Record<
    string,
    unknown
  >;
  assert.equal(found.revision, 3);
  assert.deepEqual(found.after, new Num('18446744073709551615'));
});
