/** A chart whose code comes when it is first needed. */

import { useEffect, useRef } from 'preact/hooks';
import type { ChartHandle, ChartOptions } from './charts.ts';
import { theme } from '../data/session.ts';

export function Chart({ label, ...options }: ChartOptions & { label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const name = JSON.stringify([options.xs, options.lines, theme.value]);
  useEffect(() => {
    let over = false;
    let made: ChartHandle | null = null;
    import('./charts.ts').then(
      ({ mountChart }) => {
        if (!over && host.current) made = mountChart(host.current, options);
      },
      () => undefined,
    );
    return () => {
      over = true;
      made?.destroy();
    };
  }, [name]);
  return <div class="chart" ref={host} role="img" aria-label={label} />;
}
