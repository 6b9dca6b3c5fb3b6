'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { attach, openEcho, speak } = require('./rig');
const { machineNames } = require('../../../sillytavern/plugin/hosts');

const CONFIG = { allowedHosts: ['st.example.com', '.tunnel.example', 'ported.example:8443'], allowedOrigins: ['https://play.example'] };

// Headers, and the code of the refusal, if any.
const CASES = [
    [{ host: '127.0.0.1:8000' }, null],
    [{ host: 'localhost' }, null],
    [{ host: 'LOCALHOST.:8000' }, null],
    [{ host: 'tavern.localhost:8000' }, null],
    [{ host: '[::1]:8000' }, null],
    [{ host: '192.168.1.20:8000' }, null],
    [{ host: '[fd00::20]' }, null],
    [{ host: 'st.example.com' }, null],
    [{ host: 'ST.Example.com:8000' }, null],
    [{ host: 'a.tunnel.example' }, null],
    [{ host: 'tunnel.example' }, null],
    [{ host: 'ported.example:8443' }, null],
    [{ host: 'ported.example:8444' }, 'host_not_allowed'],
    [{ host: 'sub.st.example.com' }, 'host_not_allowed'],
    [{ host: 'eviltunnel.example' }, 'host_not_allowed'],
    [{ host: 'evil.example' }, 'host_not_allowed'],
    [{ host: 'localhost.evil.example' }, 'host_not_allowed'],
    [{ host: '127.0.0.1.evil.example' }, 'host_not_allowed'],
    [{ host: '2130706433' }, 'host_not_allowed'],
    [{ host: '127.1' }, 'host_not_allowed'],
    [{ host: '::1' }, 'host_not_allowed'],
    [{ host: '[evil.example]' }, 'host_not_allowed'],
    [{ host: 'user@localhost' }, 'host_not_allowed'],
    [{ host: 'localhost:8000@evil.example' }, 'host_not_allowed'],
    [{ host: 'evil.example', 'x-forwarded-host': 'localhost' }, 'host_not_allowed'],

    [{ host: 'localhost:8000', origin: 'http://localhost:8000' }, null],
    [{ host: 'LocalHost:8000', origin: 'http://localhost:8000' }, null],
    [{ host: '192.168.1.20:8000', origin: 'http://192.168.1.20:8000' }, null],
    [{ host: '[::1]:8000', origin: 'http://[::1]:8000' }, null],
    [{ host: 'st.example.com', origin: 'https://st.example.com' }, null],
    [{ host: 'st.example.com:443', origin: 'https://st.example.com' }, null],
    [{ host: '127.0.0.1:8000', origin: 'https://play.example' }, null],
    [{ host: '127.0.0.1:8000', origin: 'https://play.example', 'sec-fetch-site': 'cross-site' }, null],
    [{ host: 'localhost:8000', origin: 'null' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: '' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://localhost:3000' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://localhost' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://127.0.0.1:8000' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'https://evil.example' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://localhost:8000@evil.example' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://localhost:8000/x' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'chrome-extension://abcdef' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'http://play.example' }, 'origin_not_allowed'],
    [{ host: 'localhost:8000', origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }, 'origin_not_allowed'],
    [{ host: 'evil.example', origin: 'http://evil.example' }, 'host_not_allowed'],

    [{ host: 'localhost:8000', 'sec-fetch-site': 'same-origin' }, null],
    [{ host: 'localhost:8000', 'sec-fetch-site': 'none' }, null],
    [{ host: 'localhost:8000', 'sec-fetch-site': 'same-site' }, 'cross_site'],
    [{ host: 'localhost:8000', 'sec-fetch-site': 'cross-site' }, 'cross_site'],
    [{ host: 'localhost:8000', 'sec-fetch-site': 'Same-Origin' }, 'cross_site'],
    [{ host: 'localhost:8000', 'sec-fetch-site': '' }, 'cross_site'],
    [{ host: 'localhost:8000', 'sec-fetch-site': ['same-origin', 'cross-site'] }, 'cross_site'],
];

test('requests of other sites are refused, those of our own pages and of programs are not', async (t) => {
    const tavern = await attach(t, await openEcho(t), { config: CONFIG });

    for (const [headers, code] of CASES) {
        const answer = await tavern.ask('GET', '/characters', { headers });

        assert.equal(answer.status, code ? 403 : 200, JSON.stringify(headers));
        assert.equal(answer.json.code, code ?? undefined, JSON.stringify(headers));
    }
});

test('they are refused on every method and for the client file', async (t) => {
    const tavern = await attach(t, await openEcho(t), { clientFile: '// client' });

    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']) {
        const answer = await tavern.ask(method, '/characters', { headers: { origin: 'null' } });

        assert.equal(answer.status, 403, method);
    }
    const file = await tavern.ask('GET', '/client/valuetracker.js', { headers: { origin: 'null' } });
    assert.equal(file.status, 403);
});

test('two hosts are refused, also if both are known', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const answer = await tavern.ask('GET', '/x', { headers: [['Host', 'localhost'], ['Host', '127.0.0.1']].flat() });

    assert.equal(answer.json.code, 'host_not_allowed');
});

test('no host, or an empty one, is refused', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    assert.match(await speak(tavern.port, 'GET /api/plugins/valuetracker/x HTTP/1.0\r\n\r\n'), /host_not_allowed/);
    assert.match(
        await speak(tavern.port, 'GET /api/plugins/valuetracker/x HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n'),
        /host_not_allowed/,
    );
});

test('a refusal has the form of every error with a hint, and other sites cannot read it', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const answer = await tavern.ask('GET', '/x', { headers: { host: 'mypc.example' } });

    assert.deepEqual(Object.keys(answer.json), ['error', 'code', 'hint', 'details']);
    assert.match(answer.json.hint, /allowedHosts/);
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.equal(answer.headers['access-control-allow-origin'], undefined);
});

test('the name of this machine is known, alone and with .local, a name from elsewhere is not', () => {
    assert.deepEqual(machineNames('My-PC'), ['my-pc', 'my-pc.local']);
    assert.deepEqual(machineNames('my-pc.local'), ['my-pc', 'my-pc.local']);
    assert.deepEqual(machineNames('host.example.com'), []);
});
