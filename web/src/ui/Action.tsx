import { Button, Tooltip, type ButtonProps } from '@mantine/core';
import type { ReactNode } from 'react';

interface ActionProps extends Omit<ButtonProps, 'disabled'> {
  children: ReactNode;
  onClick: () => void;
  /** Why it cannot be done now. The button stays in reach of keyboard and screen reader and says so. */
  disabledReason?: string | undefined;
}

/** A button that is never silently dead: when it cannot be pressed it tells why. */
export function Action({ disabledReason, onClick, children, ...rest }: ActionProps) {
  if (!disabledReason) {
    return (
      <Button variant="default" {...rest} onClick={onClick}>
        {children}
      </Button>
    );
  }
  return (
    <Tooltip label={disabledReason}>
      <Button
        variant="default"
        {...rest}
        data-disabled
        aria-disabled="true"
        aria-description={disabledReason}
        onClick={(event) => event.preventDefault()}
      >
        {children}
      </Button>
    </Tooltip>
  );
}
