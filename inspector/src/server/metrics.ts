/** The numbers of the server, from the text that `GET /metrics` answers. */

export interface Sample {
  /** Milliseconds since 1970. */
  at: number;
  requests: number;
  /** How long requests took, in seconds, and how many of them were measured. */
  seconds: number;
  measured: number;
  commits: number;
  memory: number | null;
}

/** Add up all lines of a name, whatever their labels. */
function total(text: string, name: string): number | null {
  let sum: number | null = null;
  const line = new RegExp(`^${name}(?:\\{[^\\n]*\\})? ([0-9.eE+-]+)$`, 'gm');
  for (const found of text.matchAll(line)) sum = (sum ?? 0) + Number(found[1]);
  return sum;
}

export function sampleOf(text: string, at: number): Sample {
  return {
    at,
    requests: total(text, 'valuetracker_requests_total') ?? 0,
    seconds: total(text, 'valuetracker_request_seconds_sum') ?? 0,
    measured: total(text, 'valuetracker_request_seconds_count') ?? 0,
    commits: total(text, 'valuetracker_commit_seconds_count') ?? 0,
    memory: total(text, 'process_resident_memory_bytes'),
  };
}

export interface Courses {
  times: number[];
  requests: number[];
  /** Milliseconds per request; null while there was none. */
  latency: (number | null)[];
  commits: number[];
  memory: (number | null)[];
}

/** Return what happened per second between one sample and the next. */
export function coursesOf(samples: Sample[]): Courses {
  const found: Courses = { times: [], requests: [], latency: [], commits: [], memory: [] };
  for (let index = 1; index < samples.length; index++) {
    const [before, after] = [samples[index - 1] as Sample, samples[index] as Sample];
    const seconds = (after.at - before.at) / 1000;
    // After a restart the server counts from 0 again.
    if (seconds <= 0 || after.requests < before.requests) continue;
    const measured = after.measured - before.measured;
    found.times.push(after.at / 1000);
    found.requests.push((after.requests - before.requests) / seconds);
    found.latency.push(measured > 0 ? ((after.seconds - before.seconds) / measured) * 1000 : null);
    found.commits.push((after.commits - before.commits) / seconds);
    found.memory.push(after.memory === null ? null : after.memory / 1024 / 1024);
  }
  return found;
}
