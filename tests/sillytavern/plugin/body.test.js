'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { JSON_TYPE, attach, openEcho } = require('./rig');

const EXACT = '{ "n": 9007199254740993, "f": 1.0, "a": 1, "a": 2, "10": 0, "2": 0 }';

test('parsed JSON is written again, with its own length and encoding', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const seen = (await tavern.ask('POST', '/x', {
        headers: { 'content-type': 'Application/JSON; charset=utf-16', 'content-encoding': 'gzip' },
        body: '{ "text": "caf\u00e9 \ud83d\ude00", "__proto__": {"x": 1} }',
    })).json;

    const body = Buffer.from(seen.body, 'latin1').toString();
    assert.equal(body, '{"text":"caf\u00e9 \ud83d\ude00","__proto__":{"x":1}}');
    assert.equal(seen.headers['content-type'], 'application/json');
    assert.equal(seen.headers['content-length'], String(Buffer.byteLength(body)));
    assert.equal(seen.headers['content-encoding'], undefined);
});

for (const type of ['application/merge-patch+json', 'application/json-patch+json', 'application/vnd.valuetracker+json', 'text/plain']) {
    test(`${type} goes on byte for byte`, async (t) => {
        const tavern = await attach(t, await openEcho(t));

        for (const headers of [{ 'content-type': type, 'content-length': EXACT.length }, { 'content-type': type, 'transfer-encoding': 'chunked' }]) {
            const seen = (await tavern.ask('PATCH', '/x', { headers, body: EXACT })).json;

            assert.equal(seen.body, EXACT);
            assert.equal(seen.headers['content-type'], type);
            assert.equal(seen.headers['content-length'], headers['content-length']?.toString());
        }
    });
}

test('a coded body of another type keeps its coding', async (t) => {
    const tavern = await attach(t, await openEcho(t));
    const bytes = Buffer.from([0x1f, 0x8b, 0, 255, 128, 10, 13]);

    const seen = (await tavern.ask('PUT', '/x', { headers: { 'content-type': 'application/x', 'content-encoding': 'gzip' }, body: bytes })).json;

    assert.equal(seen.body, bytes.toString('latin1'));
    assert.equal(seen.headers['content-encoding'], 'gzip');
});

test('a request without a body is forwarded without one', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const none = (await tavern.ask('DELETE', '/x', { headers: JSON_TYPE })).json;
    const empty = (await tavern.ask('POST', '/x', { headers: { 'content-type': 'text/plain', 'content-length': 0 } })).json;

    assert.deepEqual([none.method, none.body, none.headers['transfer-encoding']], ['DELETE', '', undefined]);
    assert.deepEqual([empty.body, empty.headers['content-length']], ['', '0']);
});

test('a missing body stays missing, although SillyTavern takes it for an empty object', async (t) => {
    const tavern = await attach(t, await openEcho(t));
    const send = async (headers, body) => (await tavern.ask('PUT', '/x', { headers: { ...JSON_TYPE, ...headers }, body })).json.body;

    assert.equal(await send({ 'content-length': 0 }, undefined), '');
    assert.equal(await send({ 'transfer-encoding': 'chunked' }, ''), '');
    assert.equal(await send({ 'content-encoding': 'gzip' }, '{}'), '');
    assert.equal(await send({}, '{}'), '{}');
    assert.equal(await send({ 'content-encoding': 'identity' }, ' {} '), '{}');
    assert.equal(await send({ 'transfer-encoding': 'chunked' }, '[]'), '[]');
});

test('a body on GET is forwarded, too', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const seen = (await tavern.ask('GET', '/x', { headers: { 'content-type': 'text/plain', 'content-length': 2 }, body: 'ab' })).json;

    assert.equal(seen.body, 'ab');
});

test('uploads and forms are refused', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    for (const type of ['multipart/form-data; boundary=x', 'Multipart/Mixed', 'application/x-www-form-urlencoded']) {
        const answer = await tavern.ask('POST', '/x', { headers: { 'content-type': type }, body: 'a=b' });

        assert.equal(answer.status, 415, type);
        assert.equal(answer.json.code, 'unsupported_media_type');
    }
});

test('JSON too deep to be written again is refused', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const answer = await tavern.ask('POST', '/x', { headers: JSON_TYPE, body: '['.repeat(100_000) + ']'.repeat(100_000) });

    assert.deepEqual([answer.status, answer.json.code], [400, 'too_deep']);
});

test('a body of many megabytes goes through, parsed or not', async (t) => {
    const tavern = await attach(t, await openEcho(t));
    const text = JSON.stringify({ text: 'x'.repeat(24 * 1024 * 1024) });

    for (const type of ['application/json', 'application/merge-patch+json']) {
        const seen = (await tavern.ask('PUT', '/x', { headers: { 'content-type': type }, body: text })).json;

        assert.equal(seen.body.length, text.length, type);
    }
});
