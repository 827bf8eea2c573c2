(* gip.eq5: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 5.
   MSE = E|g + Z|^2 = E|g (.) I - g|^2 + E|Z (.) I|^2. *)
From kernel Require Import definitions lemmas.

(* Z ~ N(0, s^2 I), s = sigma C *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s g I, length g = d -> length I = d -> 0 < s ->
  ex e (fun o => square (add g (scale s (noise n d o))))
  = square (sub (mask I g) g) + ex e (fun o => square (mask I (scale s (noise n d o)))).
(* for every outcome Z *)
Definition correction : Prop := forall d g Z I, length g = d -> length Z = d -> length I = d ->
  square (sub (mask I (add g Z)) g) = square (sub (mask I g) g) + square (mask I Z).

(* g = (3, -2, 1), its largest entry kept, s = 1: 17 on the left, 6 on the right *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). specialize (claim 3%nat 1 [3; -2; 1] [true; false; false] eq_refl eq_refl ltac:(lra)).
  assert (a : ex e (fun o => square (add [3; -2; 1] (scale 1 (noise n 3 o)))) = square [3; -2; 1] + 1 ^ 2 * INR (ones [true; true; true])).
  { rewrite <- (ex_noisy O e n nz 3 1 [true; true; true] [3; -2; 1] eq_refl eq_refl). apply ex_ext. intro o. reflexivity. }
  assert (b : ex e (fun o => square (mask [true; false; false] (scale 1 (noise n 3 o)))) = square [0; 0; 0] + 1 ^ 2 * INR (ones [true; false; false])).
  { rewrite <- (ex_noisy O e n nz 3 1 [true; false; false] [0; 0; 0] eq_refl eq_refl). apply ex_ext. intro o. unfold square, dot, noise; simpl; ring. }
  rewrite a, b in claim. unfold square, dot in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d g Z I eg eZ eI. assert (l : length I = length g) by congruence. assert (l' : length Z = length g) by congruence.
  clear eg eZ eI. revert Z I l l'. induction g as [|a g IH]; intros [|z Z] [|b I] l l'; try discriminate; [unfold square, dot; simpl; ring|].
  injection l as l. injection l' as l'. specialize (IH Z I l l'). unfold add, sub in *. cbn [zip mask]. rewrite !square_cons.
  destruct b; lra.
Qed.
