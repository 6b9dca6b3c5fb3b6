/** Work that goes on after its request was answered: how far it is, and what came of it. */

import { useEffect, useState } from 'preact/hooks';
import { read } from '../data/api.ts';
import type { Job } from '../data/records.ts';
import { Failure } from './ui.tsx';

const AGAIN_MS = 400;

export function JobView({ id, onEnd }: { id: string; onEnd?: () => void }) {
  const [job, setJob] = useState<Job | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let over = false;
    const ask = async (): Promise<void> => {
      try {
        const found = await read<Job>(`jobs/${encodeURIComponent(id)}`);
        if (over) return;
        setJob(found);
        if (found.status === 'running') timer = setTimeout(() => void ask(), AGAIN_MS);
        else onEnd?.();
      } catch (failure) {
        if (!over) setError(failure);
      }
    };
    void ask();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [id]);
  if (error) return <Failure error={error} />;
  if (!job) return null;
  const words: Record<string, string> = {
    backup: 'Backup',
    verify: 'Verification',
    verify_backup: 'Verification of the backup',
  };
  const name = words[job.kind] ?? job.kind;
  return (
    <section class="job" aria-label={name} role="status">
      <p>
        {name}: {job.status === 'running' ? `${job.done} of ${job.total || '…'}` : summary(job)}
      </p>
      {job.status === 'running' && <progress max={job.total || undefined} value={job.total ? job.done : undefined} />}
    </section>
  );
}

function summary(job: Job): string {
  if (job.status === 'failed') return `failed. ${job.error?.error ?? ''} ${job.error?.hint ?? ''}`;
  const result = job.result as { sound?: boolean; findings?: unknown[]; name?: string } | null;
  if (result?.sound === true) return 'everything is sound.';
  if (result?.sound === false) return `${result.findings?.length ?? 0} findings: ${JSON.stringify(result.findings)}`;
  return result?.name ? `done: ${result.name}` : 'done.';
}
