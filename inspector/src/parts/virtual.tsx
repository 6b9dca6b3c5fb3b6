/** A list that draws only the rows that can be seen. */

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core';
import type { CSSProperties, ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

const OVERSCAN = 10;

export interface VirtualListProps {
  count: number;
  height: number;
  row: (index: number, style: CSSProperties) => ComponentChildren;
  /** This row is scrolled into view when it changes. */
  active?: number;
  class?: string;
  attributes?: Record<string, unknown>;
  onKeyDown?: (event: KeyboardEvent) => void;
}

export function VirtualList(props: VirtualListProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [, draw] = useState(0);
  const made = useRef<Virtualizer<HTMLDivElement, HTMLDivElement> | null>(null);
  const options = {
    count: props.count,
    getScrollElement: () => scroller.current,
    estimateSize: () => props.height,
    overscan: OVERSCAN,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => draw((before) => before + 1),
  };
  made.current ??= new Virtualizer<HTMLDivElement, HTMLDivElement>(options);
  const virtualizer = made.current;
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), [virtualizer]);
  useLayoutEffect(() => virtualizer._willUpdate());
  const { active } = props;
  useLayoutEffect(() => {
    if (active !== undefined && active >= 0) virtualizer.scrollToIndex(active, { align: 'auto' });
  }, [virtualizer, active]);

  return (
    <div class={`scroller ${props.class ?? ''}`} ref={scroller} onKeyDown={props.onKeyDown} {...props.attributes}>
      <div class="rows" role="presentation" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {virtualizer
          .getVirtualItems()
          .filter((each) => each.index < props.count)
          .map((each) =>
            props.row(each.index, { transform: `translateY(${each.start}px)`, height: `${props.height}px` }),
          )}
      </div>
    </div>
  );
}
