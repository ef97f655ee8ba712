// A form with @mcaptcha/vanilla-glue, as its package describes it: the label names the widget's address.
import '@mcaptcha/vanilla-glue';
