import { useDisclosure } from '@mantine/hooks';
import { Button } from '@mantine/core';
import type { Pipeline } from '../api/types';
import { Play } from '../ui/icons';
import { RunDialog } from './RunDialog';

export function RunButton({ pipeline, primary }: { pipeline: Pipeline; primary?: boolean }) {
  const [opened, dialog] = useDisclosure();
  return (
    <>
      <Button
        size={primary ? 'xs' : 'compact-xs'}
        variant={primary ? 'filled' : 'default'}
        leftSection={<Play />}
        aria-label={`Run ${pipeline.metadata.name}`}
        onClick={dialog.open}
      >
        Run
      </Button>
      {/* Drawn only while it is open, so that it starts empty each time. */}
      {opened && <RunDialog pipeline={pipeline} onClose={dialog.close} />}
    </>
  );
}
