'use strict';
const assert = require('node:assert/strict');
const path = require('node:path');
const test = require('node:test');
const { makeTavern, openTavern, waitFor } = require('./rig');
const { findPaths, readSettings } = require('../../../sillytavern/plugin/settings');

const read = (tavern) => readSettings(findPaths(tavern.plugin));

test('without a config the interpreter is the installer\'s and the data lies in the data root', (t) => {
    const tavern = makeTavern(t, { python: '/usr/bin/some-python' });

    assert.deepEqual(read(tavern), {
        attach: null, secret: '', python: '/usr/bin/some-python', allowedHosts: [], allowedOrigins: [],
        dataDir: path.join(tavern.root, 'data', '_valuetracker'),
    });
});

test('SillyTavern\'s own data root is used if it is set', (t) => {
    const tavern = makeTavern(t);
    globalThis.DATA_ROOT = '/somewhere/data';
    t.after(() => delete globalThis.DATA_ROOT);

    assert.equal(read(tavern).dataDir, path.resolve('/somewhere/data/_valuetracker'));
});

test('the config overrides the rest', (t) => {
    const config = { attach: 'http://127.0.0.1:8420', secret: 's', dataDir: 'mine', python: '/p', allowedHosts: ['a'], allowedOrigins: ['https://b'], later: 1 };
    const tavern = makeTavern(t, { config: `\ufeff${JSON.stringify(config)}` });

    assert.deepEqual(read(tavern), {
        attach: { host: '127.0.0.1', port: 8420, url: 'http://127.0.0.1:8420' },
        secret: 's', python: '/p', allowedHosts: ['a'], allowedOrigins: ['https://b'], dataDir: path.join(tavern.root, 'mine'),
    });
});

const REFUSED = [
    ['{', /config\.json is not a JSON object/],
    ['[]', /not a JSON object/],
    ['null', /not a JSON object/],
    [{ dataDir: 5 }, /"dataDir" must be a string/],
    [{ allowedHosts: 'a' }, /"allowedHosts" must be a list/],
    [{ allowedOrigins: [1] }, /"allowedOrigins" must be a list/],
    [{ attach: 'http://127.0.0.1:8420' }, /needs a "secret"/],
    [{ attach: '127.0.0.1:8420', secret: 's' }, /not the address of a server/],
    [{ attach: 'https://127.0.0.1', secret: 's' }, /not the address/],
    [{ attach: 'http://u:p@127.0.0.1/', secret: 's' }, /not the address/],
    [{ attach: 'http://127.0.0.1/path', secret: 's' }, /not the address/],
];

test('an unusable config is never treated as missing', (t) => {
    for (const [config, why] of REFUSED) {
        const tavern = makeTavern(t, { config });

        assert.throws(() => read(tavern), why, JSON.stringify(config));
    }
});

test('while the config is broken nothing is started; once corrected, it is used', async (t) => {
    const tavern = makeTavern(t, { config: '{"dataDir": ' });
    const opened = await openTavern(t, tavern, { times: { longestPause: 100 } });

    const answer = await opened.ask('GET', '/health');

    assert.deepEqual([answer.status, answer.json.hint], [503, 'Correct or remove plugins/valuetracker/config.json.']);
    tavern.write('config.json', { dataDir: 'mine' });
    await waitFor(async () => (await opened.ask('GET', '/health')).status === 200);
    assert.match(opened.log.text, new RegExp(`data in ${path.join(tavern.root, 'mine')}`));
});
