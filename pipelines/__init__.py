"""The domain: functions over plain values."""
