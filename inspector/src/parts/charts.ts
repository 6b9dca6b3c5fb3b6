/** Charts, drawn by uPlot. This module comes with the first chart, not with the page. */

import uPlot from 'uplot';

export interface ChartHandle {
  destroy(): void;
}

export interface ChartOptions {
  xs: number[];
  lines: { label: string; ys: (number | null)[] }[];
  height: number;
  /** True if xs are seconds since 1970. */
  times?: boolean;
  /** True for steps: a value holds until the next one. */
  stepped?: boolean;
  /** The text at a height; without it, the number. */
  name?: (height: number) => string;
}

const COLOURS = ['--accent', '--good', '--warn', '--bad'];

export function mountChart(host: HTMLElement, options: ChartOptions): ChartHandle {
  const style = getComputedStyle(host);
  const colour = (name: string): string => style.getPropertyValue(name).trim() || '#888';
  const axis = {
    stroke: colour('--faint'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { stroke: colour('--line'), width: 1 },
    font: '11px system-ui, sans-serif',
  };
  const { name } = options;
  const stepped = options.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  const chart = new uPlot(
    {
      width: Math.max(200, host.clientWidth),
      height: options.height,
      scales: { x: { time: options.times ?? false } },
      legend: { show: true },
      cursor: { drag: { x: true, y: false } },
      axes: [
        axis,
        {
          ...axis,
          size: name ? 120 : 56,
          ...(name
            ? {
                splits: () =>
                  [...new Set(options.lines.flatMap((each) => each.ys))].filter(
                    (each): each is number => each !== null,
                  ),
                values: (_: uPlot, heights: number[]) => heights.map(name),
              }
            : {}),
        },
      ],
      series: [
        { label: options.times ? 'Time' : 'Revision' },
        ...options.lines.map((each, index) => ({
          label: each.label,
          stroke: colour(COLOURS[index % COLOURS.length] as string),
          width: 2,
          points: { show: options.xs.length < 80, size: 6 },
          ...(stepped ? { paths: stepped } : {}),
          ...(name ? { value: (_: uPlot, height: number | null) => (height === null ? 'absent' : name(height)) } : {}),
        })),
      ],
    },
    [options.xs, ...options.lines.map((each) => each.ys)] as uPlot.AlignedData,
    host,
  );
  const watch = new ResizeObserver(() =>
    chart.setSize({ width: Math.max(200, host.clientWidth), height: options.height }),
  );
  watch.observe(host);
  return {
    destroy() {
      watch.disconnect();
      chart.destroy();
    },
  };
}
