import type { BuildStep } from '../api/types';
import { ChevronDown, ChevronRight } from '../ui/icons';
import type { HeadingState } from '../ui/log/LogViewer';
import { ToneIcon } from '../ui/Status';
import { Elapsed } from '../ui/Time';
import { buildTone } from './tones';
import { counted } from '../ui/counted';

interface StepHeadingProps extends HeadingState {
  name: string;
  step: BuildStep | undefined;
}

/** The heading of a step's part of the log. */
export function StepHeading({ name, step, folded, lines, dropped }: StepHeadingProps) {
  return (
    <span className="row" style={{ width: '100%' }}>
      {folded ? <ChevronRight /> : <ChevronDown />}
      <ToneIcon tone={buildTone(step?.status ?? '')} />
      <strong className="ellipsis">{step?.title || name}</strong>
      <span className="muted ellipsis">{step?.type}</span>
      <span className="muted nowrap" style={{ marginLeft: 'auto', fontSize: 12 }}>
        {dropped > 0 && `first ${dropped.toLocaleString('en')} lines dropped · `}
        {counted(lines, 'line')}
      </span>
      {step?.started && (
        <span className="muted" style={{ fontSize: 12 }}>
          <Elapsed from={step.started} to={step.finished} />
        </span>
      )}
    </span>
  );
}
