'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { attach, openEcho } = require('./rig');

test('the client library is served as a script, also while the server is away', async (t) => {
    const tavern = await attach(t, { port: 1 }, { clientFile: 'export const \u00e9 = 1;' });

    const answer = await tavern.ask('GET', '/client/valuetracker.js?v=1');
    const head = await tavern.ask('HEAD', '/client/valuetracker.js');
    const again = await tavern.ask('GET', '/client/valuetracker.js', { headers: { 'if-none-match': answer.headers.etag } });

    assert.deepEqual([answer.status, answer.text], [200, 'export const \u00e9 = 1;']);
    assert.equal(answer.headers['content-type'], 'text/javascript; charset=utf-8');
    assert.equal(answer.headers['cache-control'], 'no-cache');
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', answer.headers['content-length']]);
    assert.deepEqual([again.status, again.text], [304, '']);
});

test('the modules in the folders of the library are served too, and nothing deeper', async (t) => {
    const tavern = await attach(t, await openEcho(t), { clientFile: '' });
    fs.mkdirSync(path.join(tavern.plugin, 'client/state/inner'), { recursive: true });
    tavern.write('client/state/json.js', 'export const json = 1;');
    tavern.write('client/state/inner/deep.js', 'export const deep = 1;');

    const answer = await tavern.ask('GET', '/client/state/json.js');
    const deep = await tavern.ask('GET', '/client/state/inner/deep.js');

    assert.deepEqual([answer.status, answer.text], [200, 'export const json = 1;']);
    assert.equal(deep.json.url, '/api/plugins/valuetracker/client/state/inner/deep.js');
});

test('a missing library is reported as not installed', async (t) => {
    const tavern = await attach(t, { port: 1 });

    const answer = await tavern.ask('GET', '/client/valuetracker.js');

    assert.deepEqual([answer.status, answer.json.code], [404, 'not_found']);
});

test('nothing else of the plugin is served', async (t) => {
    const tavern = await attach(t, await openEcho(t), { clientFile: '' });

    for (const target of ['/client/../config.json', '/client/valuetracker.js/../../config.json', '/client/%2e%2e/config.json', '/config.json']) {
        assert.equal((await tavern.ask('GET', target)).json.url, `/api/plugins/valuetracker${target}`);
    }
});
