'use strict';
const assert = require('node:assert/strict');
const http = require('node:http');
const net = require('node:net');
const test = require('node:test');
const { JSON_TYPE, MOUNT, attach, openEcho, openSocket, openStandIn, speak, waitFor } = require('./rig');

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

/** Answers the first request of each connection and resets it at the second; `seen` has them all. */
async function openForgetful(t) {
    const seen = [];
    const server = await openSocket(t, (socket) => {
        let requests = 0;
        socket.on('error', () => {});
        socket.on('data', (bytes) => {
            const text = bytes.toString('latin1');
            if (!/^[A-Z]+ /.test(text)) {
                return;
            }
            seen.push(text.split(' ')[0]);
            requests += 1;
            requests === 1 ? socket.write(OK) : socket.resetAndDestroy();
        });
    });
    return { ...server, seen };
}

const REPEATED = [
    ['GET', {}, true],
    ['HEAD', {}, true],
    ['POST', { 'idempotency-key': 'k' }, true],
    ['POST', {}, false],
    ['PUT', {}, false],
    ['DELETE', {}, false],
];
for (const [method, headers, repeated] of REPEATED) {
    const name = `${method}${headers['idempotency-key'] ? ' with an idempotency key' : ''}`;
    test(`${name} ${repeated ? 'is sent again' : 'is not sent again'} if a used connection turns out to be closed`, async (t) => {
        const server = await openForgetful(t);
        const tavern = await attach(t, server);
        await tavern.ask('GET', '/warm');

        const body = method === 'POST' || method === 'PUT' ? '{}' : undefined;
        const answer = await tavern.ask(method, '/x', { headers: { ...JSON_TYPE, ...headers }, body });

        if (repeated) {
            assert.equal(answer.status, 200);
            assert.deepEqual(server.seen, ['GET', method, method]);
        } else {
            assert.deepEqual([answer.status, answer.json.code, answer.json.details], [503, 'server_away', { maybeApplied: true }]);
            assert.deepEqual(server.seen, ['GET', method]);
        }
    });
}

test('a connection that is used again and again collects no listeners', async (t) => {
    const tavern = await attach(t, await openEcho(t));
    const warnings = [];
    const listen = (warning) => warnings.push(String(warning));
    process.on('warning', listen);
    t.after(() => process.off('warning', listen));

    for (let request = 0; request < 20; request += 1) {
        assert.equal((await tavern.ask('GET', '/x')).status, 200);
    }
    await new Promise(setImmediate);

    assert.deepEqual(warnings, []);
});

test('a streamed body is not sent again, even with an idempotency key', async (t) => {
    const server = await openForgetful(t);
    const tavern = await attach(t, server);
    await tavern.ask('GET', '/warm');

    const answer = await tavern.ask('PATCH', '/x', { headers: { 'content-type': 'application/merge-patch+json', 'idempotency-key': 'k' }, body: '{}' });

    assert.equal(answer.status, 503);
    assert.deepEqual(server.seen, ['GET', 'PATCH']);
});

test('a request is not sent again once a byte of an answer has come', async (t) => {
    let requests = 0;
    const tavern = await attach(t, await openSocket(t, (socket) => {
        socket.on('error', () => {});
        socket.on('data', () => {
            requests += 1;
            if (requests === 1) {
                socket.write(OK);
            } else {
                socket.write('HTTP/1.1 2', () => setTimeout(() => socket.resetAndDestroy(), 50));
            }
        });
    }));
    await tavern.ask('GET', '/warm');

    const answer = await tavern.ask('GET', '/x');

    assert.equal(answer.status, 503);
    assert.equal(requests, 2);
});

test('a server that does not run is away, and nothing was applied', async (t) => {
    const gone = await openEcho(t);
    const tavern = await attach(t, gone);
    const free = await new Promise((resolve) => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => resolve(port));
        });
    });
    const away = await attach(t, { port: free });

    for (const [method, headers] of [['GET', {}], ['POST', JSON_TYPE], ['PATCH', { 'content-type': 'application/merge-patch+json' }]]) {
        const answer = await away.ask(method, '/x', { headers, body: method === 'GET' ? undefined : '{}' });

        assert.equal(answer.status, 503, method);
        assert.deepEqual(Object.keys(answer.json), ['error', 'code', 'hint', 'details']);
        assert.deepEqual([answer.json.code, answer.json.details], ['server_away', { maybeApplied: false, reason: 'unreachable' }]);
        assert.equal(answer.headers['retry-after'], '1');
    }
    assert.equal((await tavern.ask('GET', '/x')).status, 200);
});

test('an answer that stops in the middle does not look complete', async (t) => {
    for (const head of ['HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n']) {
        const tavern = await attach(t, await openSocket(t, (socket) => {
            socket.on('error', () => {});
            socket.once('data', () => socket.write(head, () => setTimeout(() => socket.destroy(), 50)));
        }));

        await assert.rejects(tavern.ask('GET', '/x'), /aborted|hang up|ECONNRESET/);
    }
});

test('an invalid status counts as a server that is away', async (t) => {
    for (const status of ['099 No', '600 No', '999 No', '101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade']) {
        const tavern = await attach(t, await openSocket(t, (socket) => {
            socket.on('error', () => {});
            socket.once('data', () => socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 2\r\n\r\nok`));
        }));

        const answer = await tavern.ask('GET', '/x');

        assert.deepEqual([answer.status, answer.json.code], [503, 'server_away'], status);
    }
});

test('an informational response is not the answer', async (t) => {
    const tavern = await attach(t, await openSocket(t, (socket) => {
        socket.on('error', () => {});
        socket.once('data', () => socket.end(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n${OK}`));
    }));

    const answer = await tavern.ask('GET', '/x');

    assert.deepEqual([answer.status, answer.text], [200, 'ok']);
});

test('escapes in the path and the query stay as they are', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    for (const target of ['/a%2Fb/%e2%82%ac/%00/%zz/%', '/a//b/../c/./d?x=%20+&y#', "/a?b=c?d&e=[]|^`'\"{}", '/', '/?x=1', '//evil.example/x']) {
        const answer = await tavern.ask('GET', target);

        assert.equal(answer.json.url, MOUNT + target);
    }
});

test('a target with a host of its own is refused', async (t) => {
    const tavern = await attach(t, await openEcho(t));

    const heard = await speak(tavern.port, `GET http://evil.example${MOUNT}/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);

    assert.match(heard, /400 Bad Request[^]*malformed_request/);
});

test('HEAD, 204 and 304 have no body and end', async (t) => {
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        const status = Number(req.headers['x-status']);
        res.writeHead(status, status === 200 ? { 'content-length': 5 } : { etag: '"1"' });
        res.end(req.method === 'HEAD' || status !== 200 ? undefined : 'hello');
    }));

    for (const [method, status] of [['HEAD', 200], ['GET', 204], ['GET', 304]]) {
        const answer = await tavern.ask(method, '/x', { headers: { 'x-status': status } });

        assert.deepEqual([answer.status, answer.text], [status, '']);
    }
});

test('events come as they are sent, uncompressed, and the server is notified when the client disconnects', async (t) => {
    let closed = false;
    let send;
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
        res.flushHeaders();
        send = (text) => res.write(text);
        res.on('close', () => { closed = true; });
    }));
    const req = http.get({ host: '127.0.0.1', port: tavern.port, path: `${MOUNT}/events`, agent: false });
    req.on('error', () => {});
    const res = await new Promise((resolve) => req.on('response', resolve));
    let heard = '';
    res.on('error', () => {});
    res.on('data', (piece) => { heard += piece; });

    assert.equal(res.headers['cache-control'], 'no-cache, no-transform');
    send('id: 1\n\n');
    await waitFor(() => heard === 'id: 1\n\n');
    send('id: 2\n\n');
    await waitFor(() => heard === 'id: 1\n\nid: 2\n\n');
    assert.equal(closed, false);
    req.destroy();
    await waitFor(() => closed);
});

test('an upload that the client gives up never looks complete to the server', async (t) => {
    for (const framing of ['content-length: 1000', 'transfer-encoding: chunked']) {
        let outcome = '';
        const tavern = await attach(t, await openStandIn(t, (req, res) => {
            req.on('data', () => { outcome ||= 'begun'; });
            req.on('end', () => { outcome = 'complete'; res.end(); });
            req.on('error', () => {});
            req.on('close', () => { outcome = outcome === 'complete' ? outcome : 'given up'; });
        }));
        const socket = net.connect(tavern.port, '127.0.0.1');
        socket.on('error', () => {});
        socket.write(`PATCH ${MOUNT}/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/merge-patch+json\r\n${framing}\r\n\r\n`);
        socket.write('4\r\n{"a"\r\n');
        await waitFor(() => outcome === 'begun');

        socket.destroy();

        await waitFor(() => outcome !== 'begun');
        assert.equal(outcome, 'given up', framing);
    }
});

test('a client that does not wait for its answer frees the server', async (t) => {
    let state = '';
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        state = 'asked';
        res.on('close', () => { state = 'freed'; });
    }));
    const req = http.get({ host: '127.0.0.1', port: tavern.port, path: `${MOUNT}/changes?wait=30`, agent: false });
    req.on('error', () => {});
    await waitFor(() => state === 'asked');

    req.destroy();

    await waitFor(() => state === 'freed');
});

test('an answer that comes before the body has been read reaches the client', async (t) => {
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        res.writeHead(413, { 'content-type': 'application/json' });
        res.end('{"code":"body_too_large"}');
    }));

    for (const type of ['application/merge-patch+json', 'application/json']) {
        const answer = await tavern.ask('PUT', '/x', { headers: { 'content-type': type }, body: JSON.stringify('x'.repeat(300_000)) });

        assert.deepEqual([answer.status, answer.json.code], [413, 'body_too_large'], type);
    }
});

test('a client that reads slowly is not given more than it takes', async (t) => {
    let written = 0;
    const tavern = await attach(t, await openStandIn(t, (req, res) => {
        const piece = Buffer.alloc(64 * 1024);
        const more = () => {
            while (written < 512 * 1024 * 1024) {
                written += piece.length;
                if (!res.write(piece)) {
                    res.once('drain', more);
                    return;
                }
            }
        };
        more();
    }));
    const socket = net.connect(tavern.port, '127.0.0.1');
    t.after(() => socket.destroy());
    socket.pause();
    socket.write(`GET ${MOUNT}/export HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await waitFor(() => written > 0);

    let before = -1;
    await waitFor(async () => {
        const still = written === before;
        before = written;
        await new Promise((resolve) => setTimeout(resolve, 300));
        return still;
    });
    assert.ok(written < 64 * 1024 * 1024, String(written));
});

test('connections to the server are used again', async (t) => {
    const echo = await openEcho(t);
    const tavern = await attach(t, echo);

    for (let count = 0; count < 20; count += 1) {
        await tavern.ask('POST', '/x', { headers: JSON_TYPE, body: '{}' });
    }

    assert.equal(echo.sockets.size, 1);
});

test('no request makes the handler throw', async (t) => {
    const tavern = await attach(t, await openEcho(t));
    const broken = [
        { rawHeaders: ['Host', 'localhost'], headers: { host: 'localhost' }, method: 'BAD METHOD' },
        { rawHeaders: ['Host', 'localhost', 'x-a', 'a\nb'], headers: { host: 'localhost' } },
        { rawHeaders: ['Host', 'localhost'], headers: { host: 'localhost' }, url: '/\u20ac \n' },
        { rawHeaders: ['Host', 'localhost'], headers: { host: 'localhost' }, url: undefined },
        { rawHeaders: ['Host', 'localhost', 'content-type', 'application/json'], headers: { host: 'localhost', 'content-type': 'application/json' }, _body: true, body: 1n },
        { rawHeaders: null, headers: {} },
        { rawHeaders: ['Host', 'localhost'], headers: { host: 'localhost' }, user: { get profile() { throw new Error('no'); } } },
    ];

    for (const more of broken) {
        const req = new http.IncomingMessage(new net.Socket());
        const given = { user: { profile: { handle: 'default-user', admin: true } }, method: 'GET', url: '/x', ...more };
        for (const [name, value] of Object.entries(given)) {
            Object.defineProperty(req, name, { value });
        }
        const res = new http.ServerResponse(req);
        tavern.bridge.handle(req, res);
        await waitFor(() => res.writableEnded);
        assert.ok(res.statusCode >= 400, String(res.statusCode));
    }
    assert.equal((await tavern.ask('GET', '/x')).status, 200);
});
