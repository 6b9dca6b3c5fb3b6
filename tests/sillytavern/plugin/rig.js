'use strict';
/**
 * Shared by the tests of the plugin: a folder like SillyTavern's with the plugin in it, a server that
 * treats requests as SillyTavern does before a plugin gets them, and stand-ins for a Value Tracker
 * server that misbehaves. Python is that of the checkout.
 */

const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const REPOSITORY = path.resolve(__dirname, '..', '..', '..');
const PLUGIN = path.join(REPOSITORY, 'sillytavern', 'plugin');
const MOUNT = '/api/plugins/valuetracker';
const PYTHON = process.env.VALUETRACKER_TEST_PYTHON || path.join(REPOSITORY, '.venv', 'bin', 'python');
const PATIENCE = 60_000;

/** Lines that the plugin logged. */
class Log {
    lines = [];
    info = (...pieces) => { this.lines.push(pieces.join(' ')); };
    warn = this.info;
    error = this.info;

    get text() {
        return this.lines.join('\n');
    }
}

async function waitFor(condition, what = 'waited in vain') {
    const end = Date.now() + PATIENCE;
    for (;;) {
        const found = await condition();
        if (found) {
            return found;
        }
        if (Date.now() > end) {
            throw new Error(typeof what === 'function' ? what() : what);
        }
        await new Promise((resolve) => setTimeout(resolve, 10));
    }
}

/** A folder like SillyTavern's, with the plugin installed. */
function makeTavern(t, { config, python = PYTHON, clientFile } = {}) {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'vt-plugin-'));
    t.after(() => fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
    const plugin = path.join(root, 'plugins', 'valuetracker');
    fs.mkdirSync(path.join(root, 'public'), { recursive: true });
    fs.writeFileSync(path.join(root, 'server.js'), '');
    fs.cpSync(PLUGIN, plugin, { recursive: true });
    const write = (name, value) => fs.writeFileSync(
        path.join(plugin, name), typeof value === 'string' ? value : JSON.stringify(value));
    if (python !== null) {
        write('installed.json', { python, version: '0.0.0', files: [] });
    }
    if (config !== undefined) {
        write('config.json', config);
    }
    if (clientFile !== undefined) {
        fs.mkdirSync(path.join(plugin, 'client'));
        write('client/valuetracker.js', clientFile);
    }
    return { root, plugin, write, dataDir: path.join(root, 'data', '_valuetracker') };
}

/** A program that is started instead of Python. */
function makeProgram(tavern, text) {
    const file = path.join(tavern.root, 'python');
    fs.writeFileSync(file, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    tavern.write('installed.json', { python: file });
}

/** The plugin of a tavern, started, behind a server of its own. */
async function openTavern(t, tavern, { user = { handle: 'default-user', admin: true }, times = {} } = {}) {
    const { Bridge } = require(path.join(tavern.plugin, 'bridge.js'));
    const log = new Log();
    const bridge = new Bridge(tavern.plugin, { log, times: { pause: 20, ...times } });
    t.after(() => bridge.stop());
    await bridge.start();
    const opened = await serve(t, http.createServer((req, res) => enter(bridge, user, req, res)));
    return { ...tavern, ...opened, bridge, log, ask: (method, target, more) => ask(opened.port, method, target, more) };
}

/** Treat a request as SillyTavern does: parse JSON and forms, set the user, strip the mount. */
function enter(bridge, user, req, res) {
    const type = (req.headers['content-type'] ?? '').split(';')[0].trim().toLowerCase();
    const go = () => {
        req.user = user && { profile: { name: 'Somebody', password: 'hash', salt: 'salt', ...user } };
        req.originalUrl = req.url;
        req.baseUrl = MOUNT;
        req.url = req.url.replace(/^(.*?)\/api\/plugins\/valuetracker\/?(?=\/|$)/, '$1');
        bridge.handle(req, res);
    };
    const parsed = { 'application/json': (text) => (text ? JSON.parse(text) : {}), 'application/x-www-form-urlencoded': String }[type];
    if (!parsed || (req.headers['content-length'] === undefined && req.headers['transfer-encoding'] === undefined)) {
        go();
        return;
    }
    const pieces = [];
    req.on('error', () => {});
    req.on('data', (piece) => pieces.push(piece));
    req.on('end', () => {
        req.body = parsed(Buffer.concat(pieces).toString());
        req._body = true;
        go();
    });
}

async function serve(t, server) {
    const sockets = new Set();
    server.on('connection', (socket) => {
        sockets.add(socket);
        socket.on('close', () => sockets.delete(socket));
    });
    server.listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    t.after(() => {
        server.close();
        sockets.forEach((socket) => socket.destroy());
    });
    return { port: server.address().port, sockets };
}

/** A stand-in for the server, to misbehave: `handler` as of `node:http`. */
async function openStandIn(t, handler) {
    return serve(t, http.createServer({ keepAliveTimeout: 60_000 }, handler));
}

/** A stand-in that speaks bytes. */
async function openSocket(t, handler) {
    return serve(t, net.createServer(handler));
}

/** A tavern attached to a stand-in. */
async function attach(t, { port }, { config = {}, ...more } = {}) {
    const tavern = makeTavern(t, { config: { attach: `http://127.0.0.1:${port}`, secret: 'shared', ...config }, ...more });
    return openTavern(t, tavern, more);
}

/** A stand-in that answers with the request it got. */
async function openEcho(t) {
    return openStandIn(t, (req, res) => {
        const pieces = [];
        req.on('data', (piece) => pieces.push(piece));
        req.on('end', () => {
            const { method, url, headers, rawHeaders } = req;
            res.setHeader('content-type', 'application/json');
            res.end(JSON.stringify({ method, url, headers, rawHeaders, body: Buffer.concat(pieces).toString('latin1') }));
        });
    });
}

function ask(port, method, target, { headers = {}, body, agent = false, mount = MOUNT } = {}) {
    return new Promise((resolve, reject) => {
        const req = http.request({ host: '127.0.0.1', port, method, path: mount + target, headers, agent }, (res) => {
            const pieces = [];
            res.on('data', (piece) => pieces.push(piece));
            res.on('error', reject);
            res.on('end', () => {
                const text = Buffer.concat(pieces).toString();
                resolve({ status: res.statusCode, headers: res.headers, text, get json() { return JSON.parse(text); } });
            });
        });
        req.on('error', reject);
        // Node sends a body with DELETE without saying how long it is.
        if (body !== undefined && !Array.isArray(headers) && !req.hasHeader('transfer-encoding')) {
            req.setHeader('content-length', Buffer.byteLength(body));
        }
        req.end(body);
    });
}

/** Send bytes and return the bytes that came back until the connection closed. */
function speak(port, text) {
    return new Promise((resolve, reject) => {
        let heard = '';
        const socket = net.connect(port, '127.0.0.1', () => socket.write(text, 'latin1'));
        socket.setEncoding('latin1');
        socket.on('data', (piece) => { heard += piece; });
        socket.on('error', reject);
        socket.on('close', () => resolve(heard));
    });
}

const JSON_TYPE = { 'content-type': 'application/json' };

module.exports = {
    JSON_TYPE, MOUNT, PYTHON, REPOSITORY, Log, ask, attach, makeProgram, makeTavern, openEcho, openSocket, openStandIn,
    openTavern, speak, waitFor,
};
