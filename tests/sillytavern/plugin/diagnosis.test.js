'use strict';
/** The panel's reasons, from the real answers of the plugin and its server. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { MOUNT, REPOSITORY, attach, makeProgram, makeTavern, openStandIn, openTavern, waitFor } = require('./rig');

/** The modules of the page, loaded as modules. */
async function page(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'vt-page-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
    const copy = path.join(folder, 'diagnosis.mjs');
    fs.copyFileSync(path.join(REPOSITORY, 'sillytavern/extension/values/diagnosis.js'), copy);
    return {
        ...await import(copy),
        ...await import(path.join(REPOSITORY, 'sillytavern/client/sync/transport.js')),
    };
}

/** The connection of a page to the plugin of a tavern. */
async function connect(t, port) {
    const { Diagnosis, Transport, reasonOf } = await page(t);
    const transport = new Transport({ url: `http://127.0.0.1:${port}${MOUNT}`, extensionId: 'demo', retryMs: [], headers: () => ({}) });
    const diagnosis = new Diagnosis();
    return {
        transport,
        why: () => diagnosis.ask(transport),
        /** The reason that a connection is refused. */
        refusal: async () => {
            try {
                await transport.request('GET', '/characters', { once: true });
            } catch (error) {
                return reasonOf(error);
            }
            return null;
        },
    };
}

const FAILING = {
    whyPython: (t) => makeTavern(t, { python: '/nowhere/python' }),
    whySettings: (t) => makeTavern(t, { config: '{' }),
    whyPackage: (t) => running(t, 'echo "/usr/bin/python3: No module named valuetracker" >&2; exit 1'),
    whyEnded: (t) => running(t, 'echo "error: no" >&2; exit 1'),
    whyStarting: (t) => running(t, 'exec sleep 1000'),
};

function running(t, text) {
    const tavern = makeTavern(t);
    makeProgram(tavern, text);
    return tavern;
}

for (const [why, make] of Object.entries(FAILING)) {
    test(`a server that does not start: ${why}`, async (t) => {
        const opened = await openTavern(t, make(t), { times: { first: 10, hold: 10 } });
        const connection = await connect(t, opened.port);

        await waitFor(async () => await connection.why() === why, why);
        assert.equal(await connection.refusal(), why);
    });
}

test('a second server on the same data', async (t) => {
    const first = await openTavern(t, makeTavern(t));
    const second = await openTavern(t, makeTavern(t, { config: { dataDir: first.dataDir } }));
    const connection = await connect(t, second.port);

    await waitFor(async () => await connection.why() === 'whyInUse');
});

test('an address where nobody answers, one where another program does, and no SillyTavern', async (t) => {
    const free = net.createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => free.once('listening', resolve));
    const { port } = free.address();
    await new Promise((resolve) => free.close(resolve));
    const nobody = await attach(t, { port });
    assert.equal(await (await connect(t, nobody.port)).why(), 'whyUnreachable');

    for (const status of [200, 404]) {
        const other = await attach(t, await openStandIn(t, (_, res) => res.writeHead(status).end('<h1>Hello</h1>')));
        assert.equal(await (await connect(t, other.port)).why(), 'whyOther');
    }

    assert.equal(await (await connect(t, port)).why(), 'whyTavern');
});

test('a SillyTavern that does not run the plugin, and one that asks for a login', async (t) => {
    for (const [status, why] of [[404, 'whyPlugin'], [401, 'whyLogin'], [403, 'whyLogin']]) {
        const tavern = await openStandIn(t, (_, res) => res.writeHead(status).end('<h1>No</h1>'));
        assert.equal(await (await connect(t, tavern.port)).why(), why);
    }
});

const FILES = {
    // Every page after the first.
    whyDamaged: (bytes) => bytes.fill(0, 4096),
    // The version of the schema.
    whyTooNew: (bytes) => bytes.writeUInt32BE(1000, 60),
    // The mark of a layout from before the first release.
    whyTooOld: (bytes) => bytes.writeUInt32BE(0x56544B52, 68),
};

for (const [why, change] of Object.entries(FILES)) {
    test(`a database that cannot be used: ${why}`, async (t) => {
        const tavern = makeTavern(t);
        const before = await openTavern(t, tavern);
        await (await connect(t, before.port)).transport.register();
        await before.bridge.stop();
        const file = path.join(tavern.dataDir, 'demo.db');
        const bytes = fs.readFileSync(file);
        change(bytes);
        fs.writeFileSync(file, bytes);

        const opened = await openTavern(t, tavern);
        const connection = await connect(t, opened.port);

        assert.equal(await connection.refusal(), why);
        // The server itself answers.
        assert.notEqual(await connection.why(), why);
    });
}

test('an installation of another version, and an update while the page is open', async (t) => {
    const tavern = makeTavern(t);
    const file = path.join(tavern.plugin, 'package.json');
    const own = fs.readFileSync(file, 'utf8');
    fs.writeFileSync(file, JSON.stringify({ ...JSON.parse(own), version: '0.0.9' }));
    const opened = await openTavern(t, tavern);
    const connection = await connect(t, opened.port);
    assert.equal(await connection.why(), 'whyVersions');

    fs.writeFileSync(file, own);
    assert.equal(await connection.why(), null);

    // The same page, and a server that is newer from now on.
    let newer = false;
    const relay = await openStandIn(t, async (req, res) => {
        const { status, json } = await opened.ask(req.method, req.url.replace(MOUNT, ''));
        if (newer) json.versions.plugin.bundled = '9.0.0';
        res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(json));
    });
    const later = await connect(t, relay.port);
    assert.equal(await later.why(), null);
    newer = true;
    assert.equal(await later.why(), 'whyUpdated');
});
