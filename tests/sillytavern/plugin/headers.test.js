'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');
const { JSON_TYPE, attach, openEcho, openSocket, openStandIn } = require('./rig');

test('the user comes from SillyTavern, not from the request', async (t) => {
    const tavern = await attach(t, await openEcho(t), { user: { handle: 'alice', admin: false } });

    const { headers } = (await tavern.ask('GET', '/x', {
        headers: {
            'x-vt-user': 'bob', 'X-VT-Admin': 'true', 'x-vt-secret': 'guessed', 'x-vt-anything': '1',
            'x-forwarded-for': '127.0.0.1', 'x-forwarded-user': 'bob', forwarded: 'for=127.0.0.1', 'x-real-ip': '127.0.0.1',
        },
    })).json;

    assert.deepEqual(Object.fromEntries(Object.entries(headers).filter(([name]) => /^x-|forwarded/.test(name))), {
        'x-vt-user': 'alice', 'x-vt-admin': 'false', 'x-vt-secret': 'shared',
    });
});

test('headers for SillyTavern or for one connection are dropped', async (t) => {
    const echo = await openEcho(t);
    const tavern = await attach(t, echo);

    const { headers } = (await tavern.ask('GET', '/x', {
        headers: {
            cookie: 'session=1', authorization: 'Basic x', 'x-csrf-token': 't', 'accept-encoding': 'gzip', host: 'localhost',
            origin: 'http://localhost', referer: 'http://localhost/', 'sec-fetch-site': 'same-origin', 'sec-ch-ua': 'x', te: 'trailers',
            connection: 'close, x-private', 'x-private': '1', 'proxy-authorization': 'x', upgrade: 'websocket',
            accept: 'text/html', 'x-extension-id': 'demo', 'if-none-match': '"1"', 'last-event-id': '4',
        },
    })).json;

    assert.deepEqual(headers, {
        accept: 'text/html', 'x-extension-id': 'demo', 'if-none-match': '"1"', 'last-event-id': '4',
        host: `127.0.0.1:${echo.port}`, connection: 'keep-alive',
        'x-vt-user': 'default-user', 'x-vt-admin': 'true', 'x-vt-secret': 'shared',
    });
});

test('only true makes an admin', async (t) => {
    for (const admin of [undefined, 'true', 1, null]) {
        const tavern = await attach(t, await openEcho(t), { user: { handle: 'alice', admin } });

        assert.equal((await tavern.ask('GET', '/x')).json.headers['x-vt-admin'], 'false');
    }
});

test('a missing or invalid handle is not taken for the default user', async (t) => {
    for (const user of [null, {}, { handle: '' }, { handle: '../x' }, { handle: 'A' }, { handle: 'a'.repeat(65) }, { handle: ['a'] }]) {
        const tavern = await attach(t, await openEcho(t), { user });

        const answer = await tavern.ask('GET', '/x');

        assert.equal(answer.status, 403, JSON.stringify(user));
        assert.equal(answer.json.code, 'login_required');
    }
});

test('two headers of a name stay two, and odd bytes stay the same', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const { rawHeaders } = (await tavern.ask('GET', '/x', {
        headers: ['Host', 'localhost', 'X-Extension-Id', 'a', 'X-Extension-Id', 'b', 'x-note', 'caf\u00e9 \u00ff\ttab', '__proto__', 'x'],
    })).json;

    const pairs = rawHeaders.flatMap((name, index) => (index % 2 ? [] : [[name.toLowerCase(), rawHeaders[index + 1]]]));
    assert.deepEqual(pairs.filter(([name]) => name === 'x-extension-id').map(([, value]) => value), ['a', 'b']);
    assert.deepEqual(pairs.find(([name]) => name === 'x-note')[1], 'caf\u00e9 \u00ff\ttab');
    assert.deepEqual(pairs.find(([name]) => name === '__proto__')[1], 'x');
});

test('status and headers come back, but none that steer cookies, origins or the connection', async (t) => {
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        res.writeHead(418, {
            'x-revision': '7', etag: '"7"', 'set-cookie': 'a=b', 'access-control-allow-origin': '*', 'keep-alive': 'timeout=1',
            'content-type': 'text/plain', 'cache-control': 'no-store', 'x-odd': 'caf\u00e9',
        });
        res.end('tea');
    }));

    const answer = await tavern.ask('POST', '/x', { headers: JSON_TYPE, body: '{}' });

    assert.equal(answer.status, 418);
    assert.equal(answer.text, 'tea');
    for (const [name, value] of Object.entries({ 'x-revision': '7', etag: '"7"', 'cache-control': 'no-store', 'x-odd': 'caf\u00e9' })) {
        assert.equal(answer.headers[name], value, name);
    }
    for (const name of ['set-cookie', 'access-control-allow-origin']) {
        assert.equal(answer.headers[name], undefined, name);
    }
});

test('an answer that is not HTTP counts as a server that is away', async (t) => {
    const tavern = await attach(t, await openSocket(t, (socket) => {
        socket.on('error', () => {});
        socket.end('HTTP/1.1 200 OK\r\nx-bad: a\u0000b\r\n\r\n');
    }));

    const answer = await tavern.ask('GET', '/x');

    assert.equal(answer.status, 503);
    assert.equal(answer.json.code, 'server_away');
});
