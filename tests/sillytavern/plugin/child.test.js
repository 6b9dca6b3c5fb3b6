'use strict';
const assert = require('node:assert/strict');
const { spawn, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const test = require('node:test');
const { JSON_TYPE, PYTHON, REPOSITORY, makeProgram, makeTavern, openTavern, waitFor } = require('./rig');

const HEADERS = { ...JSON_TYPE, 'x-extension-id': 'demo' };

function isAlive(pid) {
    try {
        process.kill(pid, 0);
        return true;
    } catch {
        return false;
    }
}

const send = (tavern, method, target, value) => tavern.ask(method, target, { headers: HEADERS, body: JSON.stringify(value) });

async function setUp(tavern) {
    await send(tavern, 'POST', '/register', { extensionId: 'demo' });
    await send(tavern, 'POST', '/instances', { id: 'run', characterId: 'hero' });
}

test('the server is ready once the plugin has started, and its data is in the data root', async (t) => {
    const tavern = await openTavern(t, makeTavern(t));

    await setUp(tavern);
    const written = await send(tavern, 'POST', '/instances/run/data', { key: 'hp', value: 7 });

    assert.deepEqual(written.json, { success: true, key: 'hp', value: 7 });
    assert.deepEqual((await tavern.ask('GET', '/instances/run/data/hp', { headers: HEADERS })).json, { hp: 7 });
    assert.ok(fs.existsSync(path.join(tavern.dataDir, 'demo.db')));
    assert.equal(fs.statSync(tavern.dataDir).mode & 0o777, 0o700);
});

test('a merge patch keeps integers above 2^53 on the way', async (t) => {
    const tavern = await openTavern(t, makeTavern(t));
    await setUp(tavern);

    const patched = await tavern.ask('PATCH', '/instances/run/data', {
        headers: { ...HEADERS, 'content-type': 'application/merge-patch+json' }, body: '{"n": 9007199254740993}',
    });

    assert.equal(patched.status, 200, patched.text);
    assert.equal((await tavern.ask('GET', '/instances/run/data', { headers: HEADERS })).text, '{"n":9007199254740993}');
});

test('a body above the limit is refused by the server with its own error', async (t) => {
    const tavern = await openTavern(t, makeTavern(t));

    for (const type of ['application/json', 'application/merge-patch+json']) {
        const answer = await tavern.ask('PATCH', '/instances/run/data', {
            headers: { ...HEADERS, 'content-type': type }, body: JSON.stringify({ a: 'x'.repeat(40 * 1024 * 1024) }),
        });

        assert.deepEqual([answer.status, answer.json.code], [413, 'body_too_large'], type);
    }
});

test('a server that is killed is back at once, and nothing acknowledged is lost', async (t) => {
    const tavern = await openTavern(t, makeTavern(t));
    await setUp(tavern);
    const acknowledged = {};

    for (let round = 0; round < 2; round += 1) {
        const pid = tavern.bridge.pid;
        const writing = Array.from({ length: 50 }, async (_, index) => {
            const key = `${round}-${index}`;
            const answer = await send(tavern, 'POST', '/instances/run/data', { key, value: index });
            assert.ok([200, 503].includes(answer.status), answer.text);
            if (answer.status === 200) {
                acknowledged[key] = index;
            }
        });
        await waitFor(() => Object.keys(acknowledged).length > round * 50);
        process.kill(pid, 'SIGKILL');
        await Promise.all(writing);
        await waitFor(() => tavern.bridge.pid !== pid);

        // The request waits and is answered by the next server.
        const read = await tavern.ask('GET', '/instances/run/data', { headers: HEADERS });
        assert.equal(read.status, 200, read.text);
        assert.deepEqual({ ...read.json, ...acknowledged }, read.json);
    }
});

test('a write that is under way when the server dies is reported as maybe applied', async (t) => {
    const tavern = makeTavern(t);
    process.env.VALUETRACKER_FAIL = 'before_reply:kill';
    t.after(() => delete process.env.VALUETRACKER_FAIL);
    const opened = await openTavern(t, tavern);

    const answer = await send(opened, 'POST', '/register', { extensionId: 'demo' });

    assert.deepEqual([answer.status, answer.json.code, answer.json.details], [503, 'server_away', { maybeApplied: true }]);
});

test('stopping ends the server, also while feeds are open, and later requests get an error', async (t) => {
    const tavern = await openTavern(t, makeTavern(t), { times: { stop: 30_000 } });
    await setUp(tavern);
    const { pid } = tavern.bridge;
    const feed = tavern.ask('GET', '/events?extensionId=demo').catch(() => 'cut');

    await tavern.bridge.stop();

    assert.equal(isAlive(pid), false);
    await feed;
    const answer = await tavern.ask('GET', '/health');
    assert.deepEqual([answer.status, answer.json.hint], [503, 'SillyTavern is stopping.']);
    assert.doesNotMatch(tavern.log.text, /was killed/);
});

test('the server ends when the process that started it is killed', async (t) => {
    const tavern = makeTavern(t);
    const script = `
        const { Bridge } = require(${JSON.stringify(path.join(tavern.plugin, 'bridge.js'))});
        const bridge = new Bridge(${JSON.stringify(tavern.plugin)});
        bridge.start().then(() => console.log('pid=' + bridge.pid));`;
    const host = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'], cwd: tavern.root });
    t.after(() => host.kill('SIGKILL'));
    let said = '';
    host.stdout.on('data', (piece) => { said += piece; });
    const pid = Number((await waitFor(() => /pid=(\d+)/.exec(said)))[1]);
    assert.equal(isAlive(pid), true);

    host.kill('SIGKILL');

    await waitFor(() => !isAlive(pid), 'the server was left behind');
});

test('a missing Python is named in the log and in the hint, and used when it is back', async (t) => {
    const tavern = makeTavern(t, { python: '/nowhere/python' });
    const opened = await openTavern(t, tavern, { times: { longestPause: 100 } });

    const answer = await opened.ask('GET', '/health');

    assert.equal(answer.status, 503);
    assert.match(answer.json.hint, /The Python that installed Value Tracker no longer exists/);
    assert.doesNotMatch(answer.text, /nowhere/);
    await waitFor(() => opened.log.text.includes('/nowhere/python'));
    tavern.write('installed.json', { python: PYTHON });
    await waitFor(async () => (await opened.ask('GET', '/health')).status === 200);
});

test('a Python without Value Tracker, or a plugin that was not installed, says so', async (t) => {
    const bare = makeTavern(t);
    makeProgram(bare, 'echo "/usr/bin/python3: No module named valuetracker" >&2; exit 1');
    const opened = await openTavern(t, bare);
    await waitFor(async () => /no longer has it/.test((await opened.ask('GET', '/x')).json.hint));

    const copied = await openTavern(t, makeTavern(t, { python: null }));
    assert.match((await copied.ask('GET', '/x')).json.hint, /valuetracker sillytavern install/);
});

test('a server that does not become ready is killed and started again', async (t) => {
    const tavern = makeTavern(t);
    makeProgram(tavern, 'echo $$ >> pids; exec sleep 1000');
    const opened = await openTavern(t, tavern, { times: { ready: 200, hold: 10 } });
    const pids = () => fs.readFileSync(path.join(tavern.root, 'pids'), 'utf8').trim().split('\n').map(Number);

    await waitFor(() => pids().length >= 3);

    assert.equal(isAlive(pids()[0]), false);
    assert.equal((await opened.ask('GET', '/x')).status, 503);
    await waitFor(() => /not ready in time/.test(opened.log.text));
    await opened.bridge.stop();
    assert.deepEqual(pids().filter(isAlive), []);
});

test('one that dies at once is restarted with growing pauses, a healthy one at once', async (t) => {
    const dying = makeTavern(t);
    makeProgram(dying, 'date +%s%N >> starts; echo "error: no" >&2; exit 1');
    await openTavern(t, dying, { times: { pause: 50 } });
    const starts = () => fs.readFileSync(path.join(dying.root, 'starts'), 'utf8').trim().split('\n').map((each) => Number(each) / 1e6);

    await waitFor(() => starts().length >= 5);

    const pauses = starts().slice(1).map((each, index) => each - starts()[index]);
    [50, 100, 200, 400].forEach((least, index) => assert.ok(pauses[index] >= least, `${pauses}`));

    const well = await openTavern(t, makeTavern(t), { times: { healthy: 0 } });
    for (let round = 0; round < 4; round += 1) {
        const { pid } = well.bridge;
        process.kill(pid, 'SIGKILL');
        await waitFor(() => well.bridge.pid !== pid && isAlive(well.bridge.pid));
        assert.equal((await well.ask('GET', '/health')).status, 200);
    }
});

test('a second SillyTavern on the same data gets the reason, and takes over when the first one ends', async (t) => {
    const first = await openTavern(t, makeTavern(t));
    const second = await openTavern(t, makeTavern(t, { config: { dataDir: first.dataDir } }), { times: { longestPause: 200 } });

    await waitFor(async () => /Another Value Tracker server is using the data directory/.test((await second.ask('GET', '/x')).json.hint));
    const { hint } = (await second.ask('GET', '/x')).json;

    assert.match(hint, /"attach"/);
    assert.doesNotMatch(hint, new RegExp(first.dataDir));
    await waitFor(() => second.log.text.includes(`Another server is using ${first.dataDir}. error: `));
    assert.equal((await first.ask('GET', '/health')).status, 200);
    await first.bridge.stop();
    await waitFor(async () => (await second.ask('GET', '/health')).status === 200);
});

test('a running server can be attached to', async (t) => {
    const tavern = makeTavern(t);
    const server = spawn(PYTHON, ['-m', 'valuetracker', 'serve', '--port', '0', '--data-dir', path.join(tavern.root, 'db')], {
        env: { ...process.env, VALUETRACKER_BRIDGE_SECRET: 'shared secret' }, stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => server.kill('SIGKILL'));
    let said = '';
    server.stdout.on('data', (piece) => { said += piece; });
    const [, url] = await waitFor(() => /listening on (\S+)\n/.exec(said));
    tavern.write('config.json', { attach: url, secret: 'shared secret' });
    const opened = await openTavern(t, tavern);

    await setUp(opened);

    assert.deepEqual((await opened.ask('GET', '/instances/run/data', { headers: HEADERS })).json, {});
    assert.equal(opened.bridge.pid, undefined);
    assert.equal(fs.existsSync(opened.dataDir), false);
    await opened.bridge.stop();
    assert.equal(server.exitCode, null);
});

test('files in the folder of SillyTavern are not imported as modules', async (t) => {
    const tavern = makeTavern(t);
    for (const name of ['valuetracker.py', 'json.py', 'asyncio.py']) {
        fs.writeFileSync(path.join(tavern.root, name), 'raise SystemExit("taken for a module")');
    }

    const opened = await openTavern(t, tavern);

    assert.equal((await opened.ask('GET', '/health')).status, 200, opened.log.text);
});

test('the plugin is what SillyTavern expects, and starts and stops', async (t) => {
    const tavern = makeTavern(t);
    const script = `
        import(${JSON.stringify(path.join(tavern.plugin, 'index.js'))}).then(async (plugin) => {
            const handlers = [];
            await plugin.init({ use: (handler) => handlers.push(handler) });
            console.log(JSON.stringify({ info: plugin.info, handlers: handlers.length }));
            await plugin.exit();
        });`;

    const { stdout, status } = spawnSync(process.execPath, ['-e', script], { cwd: tavern.root, encoding: 'utf8' });

    assert.equal(status, 0);
    const said = JSON.parse(stdout.split('\n').find((line) => line.startsWith('{')));
    assert.deepEqual([said.info.id, said.handlers], ['valuetracker', 1]);
    const version = /__version__ = "(.*)"/.exec(fs.readFileSync(path.join(REPOSITORY, 'valuetracker', '__init__.py'), 'utf8'))[1];
    assert.equal(require(path.join(tavern.plugin, 'package.json')).version, version);
});
